-- start_batch: marks an adopted or queued batch as in flight, with the messages that
-- are still in it.
UPDATE {{batch}}
SET in_flight = 1, recorded_at = ?3, beat = NULL, ids = ?4
WHERE shard = 0 AND epoch = ?1 AND no = ?2
