-- renew: extends the lease, fenced by owner and epoch.
UPDATE {{lease}}
SET expires_at = ?3, low = ?4, draining = ?5
WHERE shard = 0 AND owner = ?1 AND epoch = ?2
RETURNING nudge
