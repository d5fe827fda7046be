-- enqueue: one message in the caller's transaction.
-- Locks: the file's write lock, until the caller commits.
-- Index: the unique event_id finds a duplicate; the conflict writes nothing.
INSERT INTO {{table}} ({{insert}})
VALUES {{rows}}
ON CONFLICT (event_id) DO NOTHING
