-- trim_history: forgets the oldest ?2 attempts of a message.
-- Index: {{prefix}}_attempt_by_message.
DELETE FROM {{attempt}}
WHERE sequence = ?1
ORDER BY sequence, id
LIMIT ?2
