-- dead: all, among the dead and discarded messages.
-- Index: {{prefix}}_dead.
SELECT m.sequence, {{fits}}
FROM {{table}} m INDEXED BY "{{prefix}}_dead"
WHERE m.sequence > ?2 AND m.sequence < ?3 AND m.dead_at IS NOT NULL
ORDER BY m.sequence {{order}}
LIMIT ?8
