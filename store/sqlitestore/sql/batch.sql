-- batch: the messages of one batch of this epoch and when it was recorded.
SELECT ids, recorded_at
FROM {{batch}}
WHERE shard = 0 AND epoch = ?1 AND no = ?2
