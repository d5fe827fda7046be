-- available: makes open messages available at ?2, but later than they were created and
-- than any batch was recorded (?3): see settle.
-- Locks: the rows. Index: the primary key.
UPDATE {{table}} FORCE INDEX (PRIMARY)
SET available_at = GREATEST(?2, ?3, created_at + INTERVAL 1 MICROSECOND)
WHERE sequence IN (?1) AND published_at IS NULL AND dead_at IS NULL
