-- stats: counts that look at no more than $1 rows each. What waits is either above
-- every lease's low or in {{prefix}}_due.
-- Locks: none. Index: primary key from the lowest low; {{prefix}}_due; {{prefix}}_dead.
WITH low AS MATERIALIZED (
  SELECT COALESCE(pg_catalog.min(low), 0) AS low FROM {{lease}}
), seen AS MATERIALIZED (
  SELECT sequence, created_at, available_at, attempts, {{live}} AS live
  FROM {{table}} WHERE sequence > (SELECT low FROM low) ORDER BY sequence LIMIT $1
), waiting AS MATERIALIZED (
  SELECT sequence, created_at, available_at, attempts FROM seen WHERE live
  UNION ALL
  (SELECT sequence, created_at, available_at, attempts
   FROM {{table}}
   WHERE available_at > created_at AND sequence <= (SELECT low FROM low) AND {{live}}
   LIMIT $1)
), dead AS MATERIALIZED (
  SELECT dead_reason FROM {{table}} WHERE dead_at IS NOT NULL AND published_at IS NULL LIMIT $1
)
SELECT pg_catalog.now(),
  (SELECT pg_catalog.count(*) FROM waiting),
  (SELECT pg_catalog.count(*) FROM waiting WHERE attempts > 0),
  (SELECT pg_catalog.count(*) FROM waiting WHERE attempts = 0 AND available_at > pg_catalog.now()),
  (SELECT pg_catalog.count(*) FROM dead WHERE dead_reason IS DISTINCT FROM 'discarded'),
  (SELECT pg_catalog.count(*) FROM dead WHERE dead_reason = 'discarded'),
  (SELECT pg_catalog.count(*) FROM seen) >= $1 OR (SELECT pg_catalog.count(*) FROM dead) >= $1
    OR (SELECT pg_catalog.count(*) FROM waiting) >= $1,
  (SELECT pg_catalog.min(created_at) FROM waiting WHERE available_at <= pg_catalog.now())
