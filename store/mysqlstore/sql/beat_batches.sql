-- beat_batches: notes that solo dispatches are alive.
UPDATE {{batch}} FORCE INDEX (PRIMARY)
SET beat = ?4
WHERE shard = ?1 AND epoch = ?2 AND no IN (?3)
