-- migrate_unlock: undoes migrate_lock.
SELECT COALESCE(RELEASE_LOCK(CONCAT('outbox_', MD5(COALESCE(NULLIF(?1, ''), DATABASE(), '')))), 0)
