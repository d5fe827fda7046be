-- read_rewind: the open messages of some keys or topics in a range of sequences, or
-- of all when ?6 is set.
-- Index: the primary key; the lists are small and looked up per row.
SELECT {{columns}}
FROM {{table}} m
WHERE m.sequence > ?1 AND m.sequence <= ?2 AND m.published_at IS NULL AND m.dead_at IS NULL
  AND (?6 OR m.msg_key IN (SELECT value FROM json_each(?3)) OR m.topic IN (SELECT value FROM json_each(?4)))
ORDER BY m.sequence
LIMIT ?5
