-- purge_dead: deletes some of those that are still dead for long.
-- Locks: the rows. Index: the primary key.
-- Invariant: as purge_published.
DELETE m FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence IN (?1) AND m.dead_at < UTC_TIMESTAMP(6) - INTERVAL ?2 MICROSECOND AND m.published_at IS NULL
