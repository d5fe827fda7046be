-- hasten: makes messages (?1, JSON) available at ?2; ?3 as in replay.
UPDATE {{table}}
SET available_at = max(?2, ?3, created_at + 1)
WHERE sequence IN (SELECT value FROM json_each(?1)) AND published_at IS NULL AND dead_at IS NULL
