-- get: one message with its payload.
-- Index: the unique event_id.
SELECT {{detail}}
FROM {{table}} m
WHERE m.event_id = ?1
