-- count_held: open messages that were scheduled or put back, at most ?1: all, those that
-- have failed before, those that are scheduled, and when the oldest that is due (as of ?2)
-- was created.
-- Index: {{prefix}}_due.
SELECT count(*), COALESCE(sum(attempts > 0), 0), COALESCE(sum(attempts = 0 AND available_at > ?2), 0),
  COALESCE(min(CASE WHEN available_at <= ?2 THEN created_at END), 0)
FROM (
  SELECT attempts, available_at, created_at
  FROM {{table}} INDEXED BY "{{prefix}}_due"
  WHERE available_at > created_at AND published_at IS NULL AND dead_at IS NULL
  ORDER BY available_at
  LIMIT ?1
)
