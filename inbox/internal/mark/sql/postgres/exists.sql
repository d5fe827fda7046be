-- exists: whether there is a record of migrations.
-- Invariant: not to_regclass. That may answer from a cache which nothing refreshes within a
-- transaction that waited for the lock of another migrator.
SELECT EXISTS (
  SELECT FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = '{{namespace}}' AND c.relname = 'outbox_migration'
);
