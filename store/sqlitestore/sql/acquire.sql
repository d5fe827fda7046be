-- acquire: takes the lease. The caller has found it free under the same write lock.
UPDATE {{lease}}
SET owner = ?1, instance = ?2, epoch = epoch + 1, expires_at = ?3, draining = 0
WHERE shard = 0
