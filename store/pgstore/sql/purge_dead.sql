-- purge_dead: delete some of those that are still dead for long, with their history.
-- Runs under leases_nudge: a dead message may hold its key in a relay's memory.
-- Locks: the rows it deletes.
-- Invariant: the whole condition stands on the row that is deleted.
WITH d AS (
  DELETE FROM {{table}}
  WHERE sequence = ANY($1::bigint[]) AND dead_at IS NOT NULL AND published_at IS NULL
    AND dead_at < pg_catalog.now() - $2::bigint * interval '1 microsecond'
  RETURNING sequence
), h AS (
  DELETE FROM {{attempt}} WHERE sequence = ANY(ARRAY(SELECT sequence FROM d))
)
SELECT pg_catalog.count(*) FROM d
