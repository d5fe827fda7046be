-- dead_of_key: the dead messages of a key, at most ?2.
-- Index: {{prefix}}_held.
SELECT m.sequence
FROM {{table}} m FORCE INDEX (`{{prefix}}_held`)
WHERE m.held = 2 AND CAST(m.msg_key AS BINARY) = ?1 AND COALESCE(m.dead_reason, '') <> 'discarded'
ORDER BY m.held, m.sequence
LIMIT ?2
