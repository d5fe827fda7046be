-- ahead: the first message of a key below a sequence that is dead (if $3) or was
-- scheduled or put back.
-- Locks: none. Index: {{prefix}}_dead in order; {{prefix}}_due whole. `+ 0` as in heads.
SELECT {{listed}}
FROM {{table}} m
WHERE sequence = (
  SELECT pg_catalog.min(sequence) FROM (
    (SELECT sequence FROM {{table}}
     WHERE dead_at IS NOT NULL AND published_at IS NULL AND sequence < $2
       AND CASE WHEN $3::boolean THEN msg_key = $1 AND dead_reason IS DISTINCT FROM 'discarded' ELSE false END
     ORDER BY sequence LIMIT 1)
    UNION ALL
    (SELECT sequence FROM {{table}}
     WHERE available_at > created_at AND sequence + 0 < $2 AND pg_catalog.num_nonnulls(published_at, dead_at) < 1 AND msg_key = $1
     ORDER BY sequence + 0 LIMIT 1)
  ) AS first
)
