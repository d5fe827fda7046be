-- forget: the history of messages (?1, JSON).
DELETE FROM {{attempt}}
WHERE sequence IN (SELECT value FROM json_each(?1))
