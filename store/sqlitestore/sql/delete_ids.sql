-- delete_ids: delete_run for scattered sequences.
DELETE FROM {{table}}
WHERE sequence IN (SELECT value FROM json_each(?1))
  AND published_at IS NULL AND dead_at IS NULL AND replays = ?2
