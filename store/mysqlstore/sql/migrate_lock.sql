-- migrate_lock: one migrator at a time for all outboxes of a database. DDL commits, so
-- a row lock would not last.
SELECT COALESCE(GET_LOCK(CONCAT('outbox_', MD5(COALESCE(NULLIF(?1, ''), DATABASE(), ''))), ?2), 0)
