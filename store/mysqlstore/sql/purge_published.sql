-- purge_published: deletes some of those that are still published for long.
-- Locks: the rows. Index: the primary key.
-- Invariant: the whole condition stands on the row that is deleted; one that was
-- replayed meanwhile survives.
DELETE m FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence IN (?1) AND m.published_at < UTC_TIMESTAMP(6) - INTERVAL ?2 MICROSECOND
