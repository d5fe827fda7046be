-- stats: counts that look at no more than $1 rows each, in one pass each. What waits is
-- either above every lease's low or in {{prefix}}_due.
-- Locks: none. Index: primary key from the lowest low; {{prefix}}_due; {{prefix}}_dead.
-- Invariant: `+ 0` as in heads.
WITH low AS MATERIALIZED (
  SELECT COALESCE(pg_catalog.min(low), 0) AS low FROM {{lease}}
), seen AS (
  SELECT pg_catalog.count(*) AS looked, pg_catalog.count(*) FILTER (WHERE live) AS waiting,
    pg_catalog.count(*) FILTER (WHERE live AND attempts > 0) AS retrying,
    pg_catalog.count(*) FILTER (WHERE live AND attempts = 0 AND available_at > pg_catalog.now()) AS scheduled,
    pg_catalog.min(created_at) FILTER (WHERE live AND available_at <= pg_catalog.now()) AS oldest
  FROM (
    SELECT created_at, available_at, attempts, {{live}} AS live
    FROM {{table}} WHERE sequence > (SELECT low FROM low) ORDER BY sequence LIMIT $1
  ) AS above
), held AS (
  SELECT pg_catalog.count(*) AS waiting, pg_catalog.count(*) FILTER (WHERE attempts > 0) AS retrying,
    pg_catalog.count(*) FILTER (WHERE attempts = 0 AND available_at > pg_catalog.now()) AS scheduled,
    pg_catalog.min(created_at) FILTER (WHERE available_at <= pg_catalog.now()) AS oldest
  FROM (
    SELECT created_at, available_at, attempts
    FROM {{table}}
    WHERE available_at > created_at AND sequence + 0 <= (SELECT low FROM low) AND {{live}}
    LIMIT $1
  ) AS below
), dead AS (
  SELECT pg_catalog.count(*) AS dead, pg_catalog.count(*) FILTER (WHERE dead_reason = 'discarded') AS discarded
  FROM (SELECT dead_reason FROM {{table}} WHERE dead_at IS NOT NULL AND published_at IS NULL LIMIT $1) AS over
)
SELECT pg_catalog.now(), seen.waiting + held.waiting, seen.retrying + held.retrying, seen.scheduled + held.scheduled,
  dead.dead - dead.discarded, dead.discarded,
  seen.looked >= $1 OR dead.dead >= $1 OR seen.waiting + held.waiting >= $1,
  LEAST(seen.oldest, held.oldest)
FROM seen, held, dead
