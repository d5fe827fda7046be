-- sequence: how many numbers a session takes at once.
-- Locks: none.
SELECT s.seqrelid::regclass::text, s.seqcache
FROM pg_catalog.pg_sequence s
WHERE s.seqrelid = pg_catalog.pg_get_serial_sequence($1::text, 'sequence')::regclass
