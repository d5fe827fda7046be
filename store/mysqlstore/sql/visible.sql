-- visible: the event ids that this transaction can see, without a lock: a locking read
-- of ids that do not exist could keep other producers out.
-- Index: {{prefix}}_event_id.
SELECT sequence, event_id, CAST(topic AS BINARY), CAST(tenant_id AS BINARY), CAST(msg_key AS BINARY), payload
FROM {{table}}
WHERE event_id IN ({{ids}})
