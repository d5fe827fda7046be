-- lock_open: the generation and the attempts of those messages that are still open.
-- Locks: the rows, so that what is found stays true until the step is committed.
-- Index: the primary key.
SELECT sequence, replays, attempts
FROM {{table}} FORCE INDEX (PRIMARY)
WHERE sequence IN (?1) AND published_at IS NULL AND dead_at IS NULL
FOR UPDATE
