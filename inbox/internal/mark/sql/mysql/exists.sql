-- exists: whether there is a record of migrations.
SELECT COUNT(*) > 0
FROM information_schema.tables
WHERE table_schema = {{database}} AND table_name = 'outbox_migration';
