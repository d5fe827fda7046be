-- serial: the sequence that numbers the messages, when it is one that writers need a
-- privilege for; an identity column's is not.
-- Locks: none.
SELECT pg_catalog.pg_get_serial_sequence($1::text, 'sequence')
FROM pg_catalog.pg_attribute
WHERE attrelid = pg_catalog.to_regclass($1::text) AND attname = 'sequence' AND attidentity = ''
