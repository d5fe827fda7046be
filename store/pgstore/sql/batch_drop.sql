-- batch_drop: forget batches that nothing is left of.
DELETE FROM {{batch}} b
USING unnest($2::bigint[], $3::bigint[]) AS gone(epoch, no)
WHERE b.shard = $1 AND b.epoch = gone.epoch AND b.no = gone.no
