-- release: gives the lease back, fenced by owner and epoch. instance and draining
-- stay: the next owner needs them to judge what was left in flight.
UPDATE {{lease}}
SET owner = NULL, expires_at = NULL, low = ?3
WHERE shard = 0 AND owner = ?1 AND epoch = ?2
