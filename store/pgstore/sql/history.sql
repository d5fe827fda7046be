-- history: the failed dispatches of a message, newest first.
-- Locks: none. Index: {{prefix}}_attempt_by_message.
SELECT at, attempt, route, outcome, error, took
FROM {{attempt}}
WHERE sequence = $1
ORDER BY id DESC
LIMIT 100
