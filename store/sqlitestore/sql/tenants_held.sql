-- tenants_held: tenants_fresh for open messages that were scheduled or put back.
-- Index: {{prefix}}_due.
SELECT tenant_id, count(*), count(*), 0, COALESCE(?2 - min(CASE WHEN available_at <= ?2 THEN created_at END), 0)
FROM (
  SELECT tenant_id, available_at, created_at
  FROM {{table}} INDEXED BY "{{prefix}}_due"
  WHERE available_at > created_at AND published_at IS NULL AND dead_at IS NULL
  ORDER BY available_at
  LIMIT ?1
)
GROUP BY tenant_id
