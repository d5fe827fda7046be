-- beat_batches: notes that solo dispatches are alive.
UPDATE {{batch}}
SET beat = ?2
WHERE shard = 0 AND epoch = ?1 AND no IN (SELECT value FROM json_each(?3))
