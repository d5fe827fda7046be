-- get: one message, whatever its state.
-- Locks: none. Index: {{prefix}}_event_id_key.
SELECT {{shown}}
FROM {{table}} m
WHERE event_id = $1
