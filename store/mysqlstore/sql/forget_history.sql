-- forget_history: drops the history of messages that exist no more.
-- Index: {{prefix}}_attempt_by_message.
DELETE a FROM {{attempt}} a FORCE INDEX (`{{prefix}}_attempt_by_message`)
WHERE a.sequence IN (?1)
