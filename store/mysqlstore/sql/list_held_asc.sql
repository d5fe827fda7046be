-- list_held_asc: list_asc among those that are held: 1 scheduled or put back, 2 dead.
-- Index: {{prefix}}_held.
SELECT 0, {{record}}, NULL, {{state}}
FROM {{table}} m FORCE INDEX (`{{prefix}}_held`)
WHERE m.held = ?4 AND m.sequence > ?1 AND m.sequence < ?2
ORDER BY m.held ASC, m.sequence ASC
LIMIT ?3
