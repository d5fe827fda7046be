-- finish_batches: forgets finished batches.
-- Locks: those rows. Index: the primary key; a scan would wait for other shards.
DELETE b FROM {{batch}} b FORCE INDEX (PRIMARY)
WHERE b.shard = ?1 AND b.epoch = ?2 AND b.no IN (?3)
