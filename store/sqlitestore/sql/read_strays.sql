-- read_strays: open messages in a range that were neither scheduled nor put back, so
-- that neither the due nor the dead index finds them.
-- Index: the primary key; the caller bounds the range.
SELECT sequence, msg_key, topic
FROM {{table}}
WHERE sequence > ?1 AND sequence <= ?2
  AND published_at IS NULL AND dead_at IS NULL AND available_at <= created_at
ORDER BY sequence
