-- note_attempt: appends to the history of a message.
INSERT INTO {{attempt}} (sequence, no, at, attempt, route, outcome, error, took)
SELECT ?1, COALESCE(max(no), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7
FROM {{attempt}}
WHERE sequence = ?1
