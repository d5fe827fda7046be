-- tenants: counts by tenant that look at no more than $1 rows of each part.
-- Locks: none. Index: the pending index in order; the states.
SELECT 'open', tenant_id, pg_catalog.count(*), pg_catalog.count(*), 0::bigint,
  pg_catalog.min(created_at) FILTER (WHERE available_at <= pg_catalog.now()), pg_catalog.now()
FROM (
  SELECT tenant_id, created_at, available_at
  FROM {{table}} WHERE {{live}} ORDER BY available_at, sequence LIMIT $1
) w
GROUP BY tenant_id
UNION ALL
SELECT 'dead', tenant_id, pg_catalog.count(*), 0::bigint,
  pg_catalog.count(*) FILTER (WHERE dead_reason IS DISTINCT FROM 'discarded'), NULL::timestamptz, pg_catalog.now()
FROM (
  SELECT tenant_id, dead_reason FROM {{table}} WHERE dead_at IS NOT NULL AND published_at IS NULL LIMIT $1
) x
GROUP BY tenant_id
