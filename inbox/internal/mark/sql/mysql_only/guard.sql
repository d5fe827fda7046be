-- guard: keeps other migrators of the database out, those of outboxes included.
-- Locks: a lock of the session, by the name that mysqlstore uses, too. 0 or NULL: not taken.
SELECT GET_LOCK(CONCAT('outbox_', MD5(COALESCE({{database}}, ''))), 60);
