-- purge_slice: how many rows a slice of the table has, and where it ends. An index on
-- published_at would be written by every settle; walking the primary key costs the
-- cleaner instead.
-- Index: the primary key.
SELECT COUNT(*), COALESCE(MAX(s.sequence), 0)
FROM (
  SELECT m.sequence FROM {{table}} m FORCE INDEX (PRIMARY) WHERE m.sequence > ?1 ORDER BY m.sequence LIMIT ?2
) s
