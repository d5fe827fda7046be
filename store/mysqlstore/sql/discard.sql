-- discard: gives messages up. replays changes, so that no outcome of what is in flight
-- brings one back.
-- Locks: the rows. Index: the primary key.
UPDATE {{table}} FORCE INDEX (PRIMARY)
SET replays = replays + 1, dead_at = UTC_TIMESTAMP(6), dead_reason = 'discarded'
WHERE sequence IN (?1) AND published_at IS NULL AND COALESCE(dead_reason, '') <> 'discarded'
