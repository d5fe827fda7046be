-- acquire: takes a lease that the same transaction has found free and locked.
UPDATE {{lease}}
SET owner = ?2, instance = ?3, epoch = epoch + 1, draining = 0, expires_at = UTC_TIMESTAMP(6) + INTERVAL ?4 MICROSECOND
WHERE shard = ?1
