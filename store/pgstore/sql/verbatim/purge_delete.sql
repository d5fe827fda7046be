-- purge_delete: delete what was published long ago, oldest first, with its state
-- and history.
-- Locks: the rows it deletes. Index: the published index of this layout.
-- Invariant: the whole condition stands on the row that is deleted.
WITH d AS (
  DELETE FROM {{messages}}
  WHERE id = ANY(ARRAY(
      SELECT id FROM {{messages}}
      WHERE sequence > $1 AND sequence <= $2
        AND published_at < pg_catalog.now() - $3::bigint * interval '1 microsecond'
        AND CASE WHEN $5::bigint[] IS NULL THEN true ELSE sequence = ANY($5::bigint[]) END
      ORDER BY published_at, sequence LIMIT $4
    ))
    AND published_at < pg_catalog.now() - $3::bigint * interval '1 microsecond'
  RETURNING sequence
), s AS (
  DELETE FROM {{state}} WHERE sequence = ANY(ARRAY(SELECT sequence FROM d))
), h AS (
  DELETE FROM {{attempt}} WHERE sequence = ANY(ARRAY(SELECT sequence FROM d))
)
SELECT pg_catalog.count(*), COALESCE(pg_catalog.max(sequence), 0) FROM d
