-- give_back: frees a lease that was acquired and will not be used.
UPDATE {{lease}} FORCE INDEX (PRIMARY)
SET owner = NULL, expires_at = NULL
WHERE shard = ?1 AND owner = ?2
