-- storage: how the table is kept, and what vacuum has left.
-- Locks: none.
SELECT COALESCE(c.reloptions, '{}'), COALESCE(s.n_live_tup, 0), COALESCE(s.n_dead_tup, 0)
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_stat_user_tables s ON s.relid = c.oid
WHERE c.oid = $1::text::regclass
