-- batch: the messages of one batch and when it was recorded.
-- Index: the primary key.
SELECT ids, TIMESTAMPDIFF(MICROSECOND, {{epoch}}, recorded_at)
FROM {{batch}}
WHERE shard = ?1 AND epoch = ?2 AND no = ?3
