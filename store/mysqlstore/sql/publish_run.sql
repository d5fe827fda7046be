-- publish_run: settles a run of sequences, every one of which is owned, as published.
-- Locks: those rows. Index: the primary key; no other is written for a fresh message.
-- Invariant: the guards; a message that an operator has replayed meanwhile is left.
UPDATE {{table}} FORCE INDEX (PRIMARY)
SET published_at = ?3, attempts = attempts + ?4, last_error = NULL
WHERE sequence BETWEEN ?1 AND ?2 AND published_at IS NULL AND dead_at IS NULL AND replays = ?5
