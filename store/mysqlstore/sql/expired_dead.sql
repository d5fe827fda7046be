-- expired_dead: messages after ?1 that have been dead for longer than ?2.
-- Index: {{prefix}}_held.
SELECT m.sequence
FROM {{table}} m FORCE INDEX (`{{prefix}}_held`)
WHERE m.held = 2 AND m.sequence > ?1 AND m.dead_at < UTC_TIMESTAMP(6) - INTERVAL ?2 MICROSECOND
ORDER BY m.held, m.sequence
LIMIT ?3
