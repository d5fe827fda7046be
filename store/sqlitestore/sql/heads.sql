-- heads: the keyed messages that can hold their key, in sequence order.
-- Index: {{prefix}}_dead and {{prefix}}_held, both by sequence, each read up to the limit.
SELECT sequence, msg_key, topic, dead
FROM (
  SELECT sequence, msg_key, topic, dead
  FROM (
    SELECT sequence, msg_key, topic, 1 AS dead
    FROM {{table}} INDEXED BY "{{prefix}}_dead"
    WHERE sequence > ?1 AND dead_at IS NOT NULL AND published_at IS NULL
      AND msg_key <> '' AND COALESCE(dead_reason, '') <> 'discarded'
    ORDER BY sequence
    LIMIT ?2
  )
  UNION ALL
  SELECT sequence, msg_key, topic, dead
  FROM (
    SELECT sequence, msg_key, topic, 0 AS dead
    FROM {{table}} INDEXED BY "{{prefix}}_held"
    WHERE sequence > ?1 AND available_at > created_at AND published_at IS NULL AND dead_at IS NULL
      AND msg_key <> ''
    ORDER BY sequence
    LIMIT ?2
  )
)
ORDER BY sequence
LIMIT ?2
