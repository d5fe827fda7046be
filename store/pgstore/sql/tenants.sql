-- tenants: counts by tenant that look at no more than $1 rows of each part. What waits is
-- either above every lease's low or in {{prefix}}_due, as in stats.
-- Locks: none. Index: primary key from the lowest low; {{prefix}}_due; {{prefix}}_dead.
WITH low AS MATERIALIZED (
  SELECT COALESCE(pg_catalog.min(low), 0) AS low FROM {{lease}}
)
SELECT 'fresh', tenant, pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE live), 0::bigint,
  pg_catalog.min(created_at) FILTER (WHERE live AND available_at <= pg_catalog.now()), pg_catalog.now()
FROM (
  SELECT {{tenant}} AS tenant, created_at, available_at, {{live}} AS live
  FROM {{table}} WHERE sequence > (SELECT low FROM low) ORDER BY sequence LIMIT $1
) s
GROUP BY tenant
UNION ALL
SELECT 'due', tenant, pg_catalog.count(*), pg_catalog.count(*), 0::bigint,
  pg_catalog.min(created_at) FILTER (WHERE available_at <= pg_catalog.now()), pg_catalog.now()
FROM (
  SELECT {{tenant}} AS tenant, created_at, available_at FROM {{table}}
  WHERE available_at > created_at AND sequence + 0 <= (SELECT low FROM low) AND {{live}}
  ORDER BY available_at, sequence LIMIT $1
) d
GROUP BY tenant
UNION ALL
SELECT 'dead', tenant, pg_catalog.count(*), 0::bigint,
  pg_catalog.count(*) FILTER (WHERE dead_reason IS DISTINCT FROM 'discarded'), NULL::timestamptz, pg_catalog.now()
FROM (
  SELECT {{tenant}} AS tenant, dead_reason FROM {{table}} WHERE dead_at IS NOT NULL ORDER BY sequence LIMIT $1
) x
GROUP BY tenant
