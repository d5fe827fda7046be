-- record_batch: makes a batch durable before it is dispatched. A step that is sent
-- again finds it there.
INSERT INTO {{batch}} (shard, epoch, no, instance, ids, crashes, in_flight, solo, recorded_at)
VALUES (0, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (shard, epoch, no) DO NOTHING
