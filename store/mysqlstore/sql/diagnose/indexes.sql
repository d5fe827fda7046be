-- indexes: of the messages.
-- Locks: none.
SELECT DISTINCT index_name FROM information_schema.statistics
WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE()) AND table_name = ?
