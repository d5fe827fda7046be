-- remove: deletes messages that are published or dead.
-- Locks: the rows. Index: the primary key.
DELETE m FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence IN (?1) AND (m.published_at IS NOT NULL OR m.dead_at IS NOT NULL)
