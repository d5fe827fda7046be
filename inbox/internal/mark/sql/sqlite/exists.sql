-- exists: whether there is a record of migrations.
SELECT COUNT(*) > 0
FROM sqlite_master
WHERE type = 'table' AND name = 'outbox_migration';
