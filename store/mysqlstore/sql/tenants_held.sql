-- tenants_held: tenants_fresh for open messages that were scheduled or put back.
-- Index: {{prefix}}_due.
SELECT s.tenant_id, COUNT(*), COUNT(*), 0,
  COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(CASE WHEN s.available_at <= UTC_TIMESTAMP(6) THEN s.created_at END), UTC_TIMESTAMP(6)), 0)
FROM (
  SELECT m.tenant_id, m.available_at, m.created_at
  FROM {{table}} m FORCE INDEX (`{{prefix}}_due`)
  WHERE m.held = 1
  ORDER BY m.held, m.available_at, m.sequence
  LIMIT ?1
) s
GROUP BY s.tenant_id
