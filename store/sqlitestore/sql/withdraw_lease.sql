-- withdraw_lease: ends a lease that is held as of ?2. Its owner is fenced off and counts
-- as draining: that is not a crash.
UPDATE {{lease}}
SET owner = NULL, expires_at = NULL, draining = 1
WHERE shard = ?1 AND owner IS NOT NULL AND expires_at >= ?2
