-- publish_ids: publish_run for scattered sequences.
UPDATE {{table}} FORCE INDEX (PRIMARY)
SET published_at = ?2, attempts = attempts + ?3, last_error = NULL
WHERE sequence IN (?1) AND published_at IS NULL AND dead_at IS NULL AND replays = ?4
