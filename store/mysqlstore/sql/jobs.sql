-- jobs: bulk changes, newest first; all, or one by its id.
SELECT id, verb, filter, expect, cap, rate, actor, reason, state, total, done, position, TIMESTAMPDIFF(MICROSECOND, {{epoch}}, cut),
  COALESCE(TIMESTAMPDIFF(MICROSECOND, {{epoch}}, next_at), 0), driver,
  COALESCE(TIMESTAMPDIFF(MICROSECOND, {{epoch}}, driven_at), 0), TIMESTAMPDIFF(MICROSECOND, {{epoch}}, created_at),
  TIMESTAMPDIFF(MICROSECOND, {{epoch}}, updated_at)
FROM {{job}}
WHERE table_name = '{{prefix}}' AND (?1 IS NULL OR id = ?1)
ORDER BY created_at DESC, id
LIMIT ?2
