-- adopt: moves a batch of an earlier epoch (?1, ?2) to this one, not in flight, with
-- the messages that were still in flight with it.
UPDATE {{batch}}
SET epoch = ?3, no = ?4, instance = ?5, ids = ?6, crashes = ?7, in_flight = 0
WHERE shard = 0 AND epoch = ?1 AND no = ?2
