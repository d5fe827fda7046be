-- count_dead: dead and discarded messages, at most ?1 together.
-- Index: {{prefix}}_dead.
SELECT COALESCE(sum(NOT discarded), 0), COALESCE(sum(discarded), 0)
FROM (
  SELECT COALESCE(dead_reason, '') = 'discarded' AS discarded
  FROM {{table}} INDEXED BY "{{prefix}}_dead"
  WHERE dead_at IS NOT NULL AND published_at IS NULL
  LIMIT ?1
)
