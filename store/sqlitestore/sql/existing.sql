-- existing: the content of an event id, to tell a repeated enqueue from a conflict.
-- Index: the unique event_id.
SELECT sequence, topic, tenant_id, msg_key, payload
FROM {{table}}
WHERE event_id = ?1
