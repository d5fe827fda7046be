-- top_batch: the highest number among the batches of this epoch and those it adopts.
SELECT COALESCE(max(no), 0)
FROM {{batch}}
WHERE shard = 0 AND epoch <= ?1
