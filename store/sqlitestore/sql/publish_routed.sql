-- publish_routed: publish_run for one message whose routes are noted.
UPDATE {{table}}
SET published_at = ?2, attempts = attempts + ?3, last_error = NULL, routes_done = ?5
WHERE sequence = ?1
  AND published_at IS NULL AND dead_at IS NULL AND replays = ?4
