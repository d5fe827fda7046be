-- mark_many: several events; returns those that were not marked yet.
-- Locks: as mark, one event after the other.
-- Index: the primary key.
-- Invariant: the events come sorted, so that two of these never wait in a circle.
INSERT INTO {{table}} (consumer, event_id)
SELECT $1::text, e.id
FROM pg_catalog.unnest($2::text::uuid[]) AS e (id)
ON CONFLICT (consumer, event_id) DO NOTHING
RETURNING event_id::text;
