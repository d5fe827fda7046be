-- existing: the content of an event id that exists, as of the latest commit: the
-- caller's snapshot may be older than the message it collided with.
-- Locks: the row, shared. Index: {{prefix}}_event_id.
SELECT sequence, event_id, CAST(topic AS BINARY), CAST(tenant_id AS BINARY), CAST(msg_key AS BINARY), payload
FROM {{table}}
WHERE event_id IN ({{ids}})
LOCK IN SHARE MODE
