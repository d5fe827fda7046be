-- history_slice: the messages that have a history, after ?1, and which exist no more.
-- Index: {{prefix}}_attempt_by_message, then the primary key of the messages.
SELECT a.sequence, NOT EXISTS (SELECT 1 FROM {{table}} m WHERE m.sequence = a.sequence)
FROM {{attempt}} a FORCE INDEX (`{{prefix}}_attempt_by_message`)
WHERE a.sequence > ?1
GROUP BY a.sequence
ORDER BY a.sequence
LIMIT ?2
