-- count_dead: dead and discarded messages, at most ?1 together.
-- Index: {{prefix}}_held.
SELECT COALESCE(SUM(NOT s.discarded), 0), COALESCE(SUM(s.discarded), 0)
FROM (
  SELECT COALESCE(m.dead_reason, '') = 'discarded' AS discarded
  FROM {{table}} m FORCE INDEX (`{{prefix}}_held`)
  WHERE m.held = 2
  ORDER BY m.held, m.sequence
  LIMIT ?1
) s
