-- start_batch: marks an adopted or queued batch as in flight, with the messages that are
-- still in it.
UPDATE {{batch}} FORCE INDEX (PRIMARY)
SET in_flight = 1, lost = 0, beat = NULL, recorded_at = ?4, server = ?5, ids = ?6
WHERE shard = ?1 AND epoch = ?2 AND no = ?3
