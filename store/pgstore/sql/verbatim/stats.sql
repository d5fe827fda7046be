-- stats: counts that look at no more than $1 rows each.
-- Locks: none. Index: the pending index in order; the states.
WITH waiting AS MATERIALIZED (
  SELECT sequence, created_at, available_at, attempts
  FROM {{table}} WHERE {{live}} ORDER BY available_at, sequence LIMIT $1
), dead AS MATERIALIZED (
  SELECT dead_reason FROM {{table}} WHERE dead_at IS NOT NULL AND published_at IS NULL LIMIT $1
)
SELECT pg_catalog.now(),
  (SELECT pg_catalog.count(*) FROM waiting),
  (SELECT pg_catalog.count(*) FROM waiting WHERE attempts > 0),
  (SELECT pg_catalog.count(*) FROM waiting WHERE attempts = 0 AND available_at > pg_catalog.now()),
  (SELECT pg_catalog.count(*) FROM dead WHERE dead_reason IS DISTINCT FROM 'discarded'),
  (SELECT pg_catalog.count(*) FROM dead WHERE dead_reason = 'discarded'),
  (SELECT pg_catalog.count(*) FROM dead) >= $1 OR (SELECT pg_catalog.count(*) FROM waiting) >= $1,
  (SELECT pg_catalog.min(created_at) FROM waiting WHERE available_at <= pg_catalog.now())
