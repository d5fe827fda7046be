-- resume: notes that a route goes on.
UPDATE {{route}} FORCE INDEX (PRIMARY)
SET paused_at = NULL, paused_by = NULL, reason = NULL, updated_at = UTC_TIMESTAMP(6)
WHERE table_name = '{{prefix}}' AND route = ?1
