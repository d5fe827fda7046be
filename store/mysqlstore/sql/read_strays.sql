-- read_strays: open messages in a range that were neither scheduled nor put back, so
-- that no index but the primary key finds them.
-- Index: the primary key; the caller bounds the range.
SELECT 5, m.sequence, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, m.topic, m.msg_key, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence > ?1 AND m.sequence <= ?2 AND {{open}} AND m.available_at <= m.created_at AND m.slot BETWEEN ?3 AND ?4
ORDER BY m.sequence
LIMIT ?5
