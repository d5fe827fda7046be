-- stats: counts that look at no more than $1 rows each. What waits is either above
-- every lease's low or in {{prefix}}_due.
-- Locks: none. Index: primary key from the lowest low; {{prefix}}_due; {{prefix}}_dead, alone:
-- dead messages lie far apart in the table.
-- Each part is counted as it is read: rows that are kept first spill to disk. sequence + 0
-- keeps the planner from reading everything below low by the primary key: it takes a third
-- of the table for put back.
WITH low AS MATERIALIZED (
  SELECT COALESCE(pg_catalog.min(low), 0) AS low FROM {{lease}}
), seen AS MATERIALIZED (
  SELECT pg_catalog.count(*) AS read,
    pg_catalog.count(*) FILTER (WHERE live) AS waiting,
    pg_catalog.count(*) FILTER (WHERE live AND attempts > 0) AS retrying,
    pg_catalog.count(*) FILTER (WHERE live AND attempts = 0 AND available_at > pg_catalog.now()) AS scheduled,
    pg_catalog.min(created_at) FILTER (WHERE live AND available_at <= pg_catalog.now()) AS oldest
  FROM (
    SELECT created_at, available_at, attempts, {{live}} AS live
    FROM {{table}} WHERE sequence > (SELECT low FROM low) ORDER BY sequence LIMIT $1
  ) s
), due AS MATERIALIZED (
  SELECT pg_catalog.count(*) AS waiting,
    pg_catalog.count(*) FILTER (WHERE attempts > 0) AS retrying,
    pg_catalog.count(*) FILTER (WHERE attempts = 0 AND available_at > pg_catalog.now()) AS scheduled,
    pg_catalog.min(created_at) FILTER (WHERE available_at <= pg_catalog.now()) AS oldest
  FROM (
    SELECT created_at, available_at, attempts FROM {{table}}
    WHERE available_at > created_at AND sequence + 0 <= (SELECT low FROM low) AND {{live}}
    ORDER BY available_at, sequence LIMIT $1 - (SELECT waiting FROM seen)
  ) d
), dead AS MATERIALIZED (
  SELECT pg_catalog.count(*) AS read, pg_catalog.count(*) FILTER (WHERE dead_reason = 'discarded') AS discarded
  FROM (SELECT dead_reason FROM {{table}} WHERE dead_at IS NOT NULL ORDER BY sequence LIMIT $1) x
)
SELECT pg_catalog.now(), seen.waiting + due.waiting, seen.retrying + due.retrying, seen.scheduled + due.scheduled,
  dead.read - dead.discarded, dead.discarded,
  seen.read >= $1 OR dead.read >= $1 OR seen.waiting + due.waiting >= $1,
  LEAST(seen.oldest, due.oldest)
FROM seen, due, dead
