-- indexes: of the messages, and whether each can be used.
-- Locks: none.
SELECT c.relname::text, i.indisvalid AND i.indisready AND i.indislive, pg_catalog.pg_get_indexdef(i.indexrelid)
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = $1::text::regclass
ORDER BY c.relname
