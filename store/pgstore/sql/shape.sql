-- shape: how many of the columns exist that this program needs besides the messages.
-- The catalogs answer whoever asks; the tables themselves may be closed to a role.
-- Locks: none.
SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute
WHERE NOT attisdropped
  AND ((attrelid = pg_catalog.to_regclass('{{audit}}') AND attname IN ('route', 'msg_key', 'filter', 'messages'))
    OR (attrelid = pg_catalog.to_regclass('{{job}}') AND attname IN ('filter', 'cut', 'next_at', 'driven_at'))
    OR (attrelid = pg_catalog.to_regclass('{{route}}') AND attname IN ('paused_at', 'paused_by'))
    OR (attrelid = pg_catalog.to_regclass('{{relay}}') AND attname IN ('ttl', 'note')))
