-- drop_batch: forgets a batch of which nothing is in flight any more.
DELETE FROM {{batch}}
WHERE shard = 0 AND epoch = ?1 AND no = ?2
