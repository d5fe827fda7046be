-- enqueue_many: several messages in the caller's transaction, one statement per chunk.
-- Locks: the file's write lock, until the caller commits.
-- Invariant: a row that is not returned existed before. SQLite does not promise the
-- order of RETURNING, so rows are told apart by event_id.
INSERT INTO {{table}} ({{insert}})
VALUES {{rows}}
ON CONFLICT (event_id) DO NOTHING
RETURNING event_id, sequence
