-- purge_history: forget the history of messages that were deleted when they were
-- published. It walks by id and says where it came to, 0 at the end.
-- Locks: the rows it deletes. Index: primary keys.
WITH slice AS MATERIALIZED (
  SELECT id, sequence FROM {{attempt}} WHERE id > $1 ORDER BY id LIMIT $2
), d AS (
  DELETE FROM {{attempt}}
  WHERE id = ANY(ARRAY(
    SELECT id FROM slice s WHERE NOT EXISTS (SELECT 1 FROM {{table}} t WHERE t.sequence = s.sequence)
  ))
)
SELECT CASE WHEN pg_catalog.count(*) < $2 THEN 0 ELSE pg_catalog.max(id) END FROM slice
