-- lease_withdraw: end a lease. Its owner is fenced off, and counts as draining: that is
-- not a crash.
-- Locks: the lease, which is locked already.
UPDATE {{lease}} SET owner = NULL, expires_at = NULL, draining = true
WHERE shard = $1 AND owner IS NOT NULL AND expires_at >= pg_catalog.clock_timestamp()
