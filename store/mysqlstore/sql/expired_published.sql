-- expired_published: messages of a slice that were published longer than ?3 ago.
-- Index: the primary key.
SELECT m.sequence
FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence > ?1 AND m.sequence <= ?2 AND m.published_at < UTC_TIMESTAMP(6) - INTERVAL ?3 MICROSECOND
ORDER BY m.sequence
LIMIT ?4
