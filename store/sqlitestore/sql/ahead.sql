-- ahead: the first message of a key below a sequence that is dead (if ?3) or was
-- scheduled or put back.
-- Index: {{prefix}}_dead and {{prefix}}_held, both by sequence.
SELECT sequence
FROM (
  SELECT sequence
  FROM (
    SELECT sequence
    FROM {{table}} INDEXED BY "{{prefix}}_dead"
    WHERE ?3 AND dead_at IS NOT NULL AND published_at IS NULL AND sequence < ?2
      AND msg_key = ?1 AND COALESCE(dead_reason, '') <> 'discarded'
    ORDER BY sequence
    LIMIT 1
  )
  UNION ALL
  SELECT sequence
  FROM (
    SELECT sequence
    FROM {{table}} INDEXED BY "{{prefix}}_held"
    WHERE available_at > created_at AND published_at IS NULL AND dead_at IS NULL AND sequence < ?2
      AND msg_key = ?1
    ORDER BY sequence
    LIMIT 1
  )
)
ORDER BY sequence
LIMIT 1
