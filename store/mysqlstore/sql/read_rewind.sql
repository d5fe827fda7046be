-- read_rewind: the open messages of some keys or topics in a range of sequences, or of
-- all when ?6 is set. Compared as bytes: a collation would ignore spaces at the end.
-- Index: the primary key.
SELECT 4, {{record}}, m.payload
FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence > ?1 AND m.sequence <= ?2 AND m.published_at IS NULL AND m.dead_at IS NULL AND m.slot BETWEEN ?3 AND ?4
  AND (?6 OR CAST(m.msg_key AS BINARY) IN (?7) OR CAST(m.topic AS BINARY) IN (?8))
ORDER BY m.sequence
LIMIT ?5
