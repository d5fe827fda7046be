-- archived_dead: deletes archived messages by id.
-- Invariant: the predicate is repeated: one that was replayed meanwhile survives.
DELETE FROM {{table}}
WHERE sequence IN (SELECT value FROM json_each(?2)) AND dead_at < ?1 AND published_at IS NULL
