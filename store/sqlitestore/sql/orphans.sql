-- orphans: the batches that earlier epochs left behind.
SELECT epoch, no, instance, ids, crashes, in_flight, solo, beat IS NOT NULL, recorded_at
FROM {{batch}}
WHERE shard = 0 AND epoch < ?1
ORDER BY epoch, no
