-- mark: one event, unless it is marked already.
-- Locks: the file. There is one writer, so that a concurrent mark waits.
-- Index: the primary key.
INSERT INTO {{table}} (consumer, event_id)
VALUES (?1, ?2)
ON CONFLICT (consumer, event_id) DO NOTHING;
