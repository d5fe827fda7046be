-- release: gives the lease back, under the fence. instance and draining stay: the next
-- owner needs them to judge what was left in flight.
UPDATE {{lease}}
SET owner = NULL, expires_at = NULL, low = ?2
WHERE shard = ?1
