-- job: one bulk change.
-- Locks: the row, so that one step is made at a time.
SELECT id, verb, filter, expect, cap, rate, actor, reason, state, total, done, position, TIMESTAMPDIFF(MICROSECOND, {{epoch}}, cut),
  COALESCE(TIMESTAMPDIFF(MICROSECOND, {{epoch}}, next_at), 0), driver,
  COALESCE(TIMESTAMPDIFF(MICROSECOND, {{epoch}}, driven_at), 0), TIMESTAMPDIFF(MICROSECOND, {{epoch}}, created_at),
  TIMESTAMPDIFF(MICROSECOND, {{epoch}}, updated_at)
FROM {{job}}
WHERE id = ?1 AND table_name = '{{prefix}}'
FOR UPDATE
