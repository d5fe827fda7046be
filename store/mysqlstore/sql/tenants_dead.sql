-- tenants_dead: tenants_fresh for dead and discarded messages.
-- Index: {{prefix}}_held.
SELECT s.tenant_id, COUNT(*), 0, SUM(s.dead), 0
FROM (
  SELECT m.tenant_id, COALESCE(m.dead_reason, '') <> 'discarded' AS dead
  FROM {{table}} m FORCE INDEX (`{{prefix}}_held`)
  WHERE m.held = 2
  ORDER BY m.held, m.sequence
  LIMIT ?1
) s
GROUP BY s.tenant_id
