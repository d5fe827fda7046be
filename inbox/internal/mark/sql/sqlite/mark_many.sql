-- mark_many: several events; returns those that were not marked yet.
-- Locks: the file.
-- Index: the primary key.
INSERT INTO {{table}} (consumer, event_id)
SELECT ?1, value
FROM json_each(?2)
WHERE true
ON CONFLICT (consumer, event_id) DO NOTHING
RETURNING event_id;
