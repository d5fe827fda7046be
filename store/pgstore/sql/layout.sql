-- layout: the columns of the table, none when it does not exist. Looked at once.
-- Locks: none.
SELECT attname::text, pg_catalog.format_type(atttypid, NULL)
FROM pg_catalog.pg_attribute
WHERE attrelid = pg_catalog.to_regclass($1::text) AND attnum > 0 AND NOT attisdropped
