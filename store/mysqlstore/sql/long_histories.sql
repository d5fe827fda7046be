-- long_histories: messages with more than ?2 attempts in their history.
-- Index: {{prefix}}_attempt_by_message.
SELECT sequence, COUNT(*)
FROM {{attempt}} FORCE INDEX (`{{prefix}}_attempt_by_message`)
WHERE sequence IN (?1)
GROUP BY sequence
HAVING COUNT(*) > ?2
