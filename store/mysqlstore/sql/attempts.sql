-- attempts: the history of a message, newest first.
-- Index: {{prefix}}_attempt_by_message.
SELECT TIMESTAMPDIFF(MICROSECOND, {{epoch}}, at), attempt, route, outcome, error, took
FROM {{attempt}}
WHERE sequence = ?1
ORDER BY id DESC
LIMIT 100
