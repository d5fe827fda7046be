-- fence: lock the lease of a transaction with several statements.
-- Locks: the lease row, until the transaction ends.
SELECT 1 FROM {{lease}}
WHERE shard = $1 AND owner = $2 AND epoch = $3 AND pg_catalog.pg_postmaster_start_time() = $4
FOR NO KEY UPDATE
