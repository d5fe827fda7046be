-- resume: notes that a route goes on.
UPDATE {{route}}
SET paused_at = NULL, paused_by = NULL, reason = NULL, updated_at = ?2
WHERE table_name = '{{prefix}}' AND route = ?1
