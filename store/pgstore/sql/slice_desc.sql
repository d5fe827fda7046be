-- slice_desc: how many rows a slice of the table has, and where it ends.
-- Locks: none. Index: primary key, or {{prefix}}_dead.
SELECT pg_catalog.count(*), COALESCE(pg_catalog.min(sequence), 0), pg_catalog.now()
FROM (
  SELECT sequence FROM {{table}}
  WHERE sequence > $1 AND sequence < $2 AND CASE WHEN $4::boolean THEN dead_at IS NOT NULL ELSE true END
  ORDER BY sequence DESC LIMIT $3
) AS slice
