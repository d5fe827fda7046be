-- mark: one event, unless it is marked already.
-- Locks: a concurrent mark of the same event, until its transaction ends. When that is
-- rolled back, this one goes on and inserts.
-- Index: the primary key.
INSERT INTO {{table}} (consumer, event_id)
VALUES ($1::text, $2::uuid)
ON CONFLICT (consumer, event_id) DO NOTHING;
