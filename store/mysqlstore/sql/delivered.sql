-- delivered: the highest published sequence of some keys (?3), among the ?2 messages
-- above ?1.
-- Index: the primary key.
SELECT d.msg_key, MAX(d.sequence)
FROM (
  SELECT m.msg_key, m.sequence, m.published_at
  FROM {{table}} m FORCE INDEX (PRIMARY)
  WHERE m.sequence > ?1
  ORDER BY m.sequence
  LIMIT ?2
) d
WHERE d.published_at IS NOT NULL AND CAST(d.msg_key AS BINARY) IN (?3)
GROUP BY d.msg_key
