-- insert_or_find: insert_unique for a batch: the existing sequence comes back,
-- negative when the content is another.
-- Locks: the new row; waits for a running transaction that inserted the same id.
WITH i AS (
  INSERT INTO {{messages}} (event_id, topic, tenant_id, payload, available_at{{trace_columns}})
  VALUES ($1, $2, COALESCE(NULLIF($3::text, ''), '00000000-0000-0000-0000-000000000000')::uuid, $4,
    COALESCE($5::timestamptz, pg_catalog.now()){{trace_values}})
  ON CONFLICT (event_id) DO NOTHING
  RETURNING sequence
)
SELECT sequence FROM i
UNION ALL
SELECT CASE WHEN (topic, tenant_id, payload{{comparable}}) IS NOT DISTINCT FROM ($2, $3::text, $4{{comparable}})
  THEN sequence ELSE -sequence END
FROM {{table}}
WHERE event_id = $1
