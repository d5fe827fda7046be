-- renew: extends the lease, expired or not, under the fence.
UPDATE {{lease}}
SET expires_at = UTC_TIMESTAMP(6) + INTERVAL ?2 MICROSECOND, low = ?3, draining = ?4
WHERE shard = ?1
