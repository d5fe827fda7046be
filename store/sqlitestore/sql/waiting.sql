-- waiting: open messages of some keys (?1, JSON), among the first ?2 that wait at all.
-- Index: the primary key above low; {{prefix}}_held below it.
SELECT msg_key, sequence
FROM (
  SELECT msg_key, sequence
  FROM (
    SELECT msg_key, sequence
    FROM {{table}}
    WHERE sequence > (SELECT low FROM {{lease}} WHERE shard = 0) AND published_at IS NULL AND dead_at IS NULL
    ORDER BY sequence
    LIMIT ?2
  )
  UNION ALL
  SELECT msg_key, sequence
  FROM (
    SELECT msg_key, sequence
    FROM {{table}} INDEXED BY "{{prefix}}_held"
    WHERE available_at > created_at AND published_at IS NULL AND dead_at IS NULL
      AND sequence <= (SELECT low FROM {{lease}} WHERE shard = 0)
    ORDER BY sequence
    LIMIT ?2
  )
)
WHERE msg_key IN (SELECT value FROM json_each(?1))
