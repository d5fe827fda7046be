-- server: which server this is.
-- Locks: none.
-- Invariant: the fence of every write compares started_at, because a server that
-- restarted may have lost commits and handed out their sequences again.
SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.pg_postmaster_start_time()
