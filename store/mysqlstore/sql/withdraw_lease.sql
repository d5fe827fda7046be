-- withdraw_lease: ends a lease, under lock_leases. Its owner is fenced off and counts as
-- draining: that is not a crash.
UPDATE {{lease}}
SET owner = NULL, expires_at = NULL, draining = 1
WHERE shard = ?1
