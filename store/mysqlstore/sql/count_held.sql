-- count_held: open messages that were scheduled or put back, at most ?1: all, those that
-- have failed before, those that are scheduled, and when the oldest that is due was
-- created.
-- Index: {{prefix}}_due.
SELECT COUNT(*), COALESCE(SUM(s.attempts > 0), 0), COALESCE(SUM(s.attempts = 0 AND s.available_at > UTC_TIMESTAMP(6)), 0),
  COALESCE(MIN(CASE WHEN s.available_at <= UTC_TIMESTAMP(6) THEN TIMESTAMPDIFF(MICROSECOND, {{epoch}}, s.created_at) END), 0)
FROM (
  SELECT m.attempts, m.available_at, m.created_at
  FROM {{table}} m FORCE INDEX (`{{prefix}}_due`)
  WHERE m.held = 1
  ORDER BY m.held, m.available_at, m.sequence
  LIMIT ?1
) s
