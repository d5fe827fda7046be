-- record_batches: makes batches durable before they are dispatched. A step that is sent
-- again finds them there.
INSERT INTO {{batch}} (shard, epoch, no, ids, crashes, in_flight, solo, recorded_at, server)
VALUES ?1
ON DUPLICATE KEY UPDATE solo = solo
