-- undelivered: messages that a migration down would lose.
SELECT COUNT(*)
FROM {{table}}
WHERE published_at IS NULL AND COALESCE(dead_reason, '') <> 'discarded'
