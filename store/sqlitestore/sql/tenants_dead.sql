-- tenants_dead: tenants_fresh for dead and discarded messages; ?2 is not used.
-- Index: {{prefix}}_dead.
SELECT tenant_id, count(*), 0, sum(NOT discarded), ?2 - ?2
FROM (
  SELECT tenant_id, COALESCE(dead_reason, '') = 'discarded' AS discarded
  FROM {{table}} INDEXED BY "{{prefix}}_dead"
  WHERE dead_at IS NOT NULL AND published_at IS NULL
  LIMIT ?1
)
GROUP BY tenant_id
