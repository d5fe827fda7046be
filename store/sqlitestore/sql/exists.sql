-- exists: is there a table of this name?
SELECT count(*)
FROM sqlite_master
WHERE type = 'table' AND name = ?1
