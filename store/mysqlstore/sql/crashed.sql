-- crashed: counts a crash for every message of a lost batch.
-- Index: the primary key.
UPDATE {{table}} FORCE INDEX (PRIMARY)
SET crashes = crashes + 1
WHERE sequence IN (?1) AND published_at IS NULL AND dead_at IS NULL
