-- engine: what keeps the table.
-- Locks: none.
SELECT COALESCE(engine, '') FROM information_schema.tables
WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ?
