-- purge_dead: delete some of those that are still dead for long, with their state and
-- history. The leases are locked, so no replay runs meanwhile.
-- Locks: the rows it deletes.
WITH d AS (
  DELETE FROM {{messages}} t
  WHERE sequence = ANY($1::bigint[]) AND published_at IS NULL
    AND EXISTS (SELECT 1 FROM {{state}} s WHERE s.sequence = t.sequence
      AND s.dead_at < pg_catalog.now() - $2::bigint * interval '1 microsecond')
  RETURNING sequence
), s AS (
  DELETE FROM {{state}} WHERE sequence = ANY(ARRAY(SELECT sequence FROM d))
), h AS (
  DELETE FROM {{attempt}} WHERE sequence = ANY(ARRAY(SELECT sequence FROM d))
)
SELECT pg_catalog.count(*) FROM d
