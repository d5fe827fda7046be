-- adopt_batch: moves a batch of an earlier epoch to this one, not in flight, with the
-- messages that were still in flight with it.
UPDATE {{batch}} FORCE INDEX (PRIMARY)
SET epoch = ?4, no = ?5, ids = ?6, crashes = ?7, lost = ?8, in_flight = 0
WHERE shard = ?1 AND epoch = ?2 AND no = ?3
