-- attempts: the history of a message, newest first.
-- Index: the primary key.
SELECT at, attempt, route, outcome, error, took
FROM {{attempt}}
WHERE sequence = ?1
ORDER BY no DESC
