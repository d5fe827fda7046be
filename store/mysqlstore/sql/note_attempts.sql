-- note_attempts: appends to the histories of messages.
INSERT INTO {{attempt}} (sequence, at, attempt, route, outcome, error, took)
VALUES ?1
