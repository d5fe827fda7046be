-- publish_ids: publish_run for scattered sequences.
UPDATE {{table}}
SET published_at = ?2, attempts = attempts + ?3, last_error = NULL
WHERE sequence IN (SELECT value FROM json_each(?1))
  AND published_at IS NULL AND dead_at IS NULL AND replays = ?4
