-- dead_of_key: the dead messages of a key, at most $2.
-- Locks: none. Index: {{prefix}}_dead.
SELECT event_id FROM {{table}}
WHERE dead_at IS NOT NULL AND published_at IS NULL AND msg_key = $1 AND dead_reason IS DISTINCT FROM 'discarded'
ORDER BY sequence LIMIT $2
