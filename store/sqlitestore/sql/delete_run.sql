-- delete_run: publish_run for tables that keep nothing.
DELETE FROM {{table}}
WHERE sequence BETWEEN ?1 AND ?2
  AND published_at IS NULL AND dead_at IS NULL AND replays = ?3
