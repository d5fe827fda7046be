-- jobs: one bulk change, or the newest.
SELECT id, verb, filter, expect, cap, rate, actor, reason, state, total, done, cursor, cut, COALESCE(next_at, 0), driver,
  COALESCE(driven_at, 0), created_at, updated_at
FROM {{job}}
WHERE table_name = '{{prefix}}' AND (?1 IS NULL OR id = ?1)
ORDER BY created_at DESC, id
LIMIT ?2
