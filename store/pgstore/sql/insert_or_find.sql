-- insert_or_find: insert_unique for a batch, which cannot ask a second question: the
-- existing sequence comes back instead, negative when the content is another. No row
-- means that another transaction committed the id while this one waited for it.
-- Locks: the new row; waits for a running transaction that inserted the same id.
WITH i AS (
  INSERT INTO {{table}} (event_id, topic, msg_key, tenant_id, payload, available_at, headers, content_type,
    aggregate_type, aggregate_id, event_type, event_version, traceparent, tracestate)
  VALUES ($1, $2, $3, {{tenant_value}}, $5, COALESCE($6::timestamptz, pg_catalog.now()), NULLIF($7, '')::json, NULLIF($8, ''),
    NULLIF($9, ''), NULLIF($10, ''), NULLIF($11, ''), NULLIF($12::integer, 0), NULLIF($13, ''), NULLIF($14, ''))
  ON CONFLICT (event_id) DO NOTHING
  RETURNING sequence
)
SELECT sequence FROM i
UNION ALL
SELECT CASE WHEN (topic, msg_key, {{tenant}}, payload{{comparable}}) IS NOT DISTINCT FROM ($2, $3, $4, $5{{comparable}})
  THEN sequence ELSE -sequence END
FROM {{table}}
WHERE event_id = $1
