-- unsettled: which of some messages are open, since when they are available, and their
-- attempts.
-- Index: the primary key.
SELECT sequence, TIMESTAMPDIFF(MICROSECOND, {{epoch}}, available_at), attempts
FROM {{table}} FORCE INDEX (PRIMARY)
WHERE sequence IN (?1) AND published_at IS NULL AND dead_at IS NULL
