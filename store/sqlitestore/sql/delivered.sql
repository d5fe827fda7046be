-- delivered: the highest published sequence of some keys (?3, JSON), among the ?2
-- messages above ?1.
-- Index: the primary key.
SELECT msg_key, max(sequence)
FROM (
  SELECT msg_key, sequence, published_at
  FROM {{table}}
  WHERE sequence > ?1
  ORDER BY sequence
  LIMIT ?2
)
WHERE published_at IS NOT NULL AND msg_key IN (SELECT value FROM json_each(?3))
GROUP BY msg_key
