-- release: give the lease back. instance and draining stay, to excuse the batches
-- that are left.
-- Locks: the lease row.
UPDATE {{lease}}
SET owner = NULL, expires_at = NULL, low = COALESCE($5, low)
WHERE shard = $1 AND owner = $2 AND epoch = $3 AND pg_catalog.set_config('lock_timeout', $4, true) IS NOT NULL
