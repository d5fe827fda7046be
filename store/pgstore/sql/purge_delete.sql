-- purge_delete: delete what was published long ago in one slice of the table, with
-- its history. An index on published_at would make every settle of the relay write
-- it; walking the primary key costs the cleaner instead.
-- Locks: the rows it deletes. Index: primary key.
-- Invariant: the whole condition stands on the row that is deleted. In a subselect
-- alone, a message that is replayed meanwhile would be lost.
WITH d AS (
  DELETE FROM {{table}}
  WHERE sequence = ANY(ARRAY(
      SELECT sequence FROM {{table}}
      WHERE sequence > $1 AND sequence <= $2
        AND published_at < pg_catalog.now() - $3::bigint * interval '1 microsecond'
        AND CASE WHEN $5::bigint[] IS NULL THEN true ELSE sequence = ANY($5::bigint[]) END
      ORDER BY sequence LIMIT $4
    ))
    AND published_at < pg_catalog.now() - $3::bigint * interval '1 microsecond'
  RETURNING sequence
), h AS (
  DELETE FROM {{attempt}} WHERE sequence = ANY(ARRAY(SELECT sequence FROM d))
)
SELECT pg_catalog.count(*), COALESCE(pg_catalog.max(sequence), 0) FROM d
