-- identity: what a restored copy of this database would not share. Needs
-- EXECUTE on two functions that an administrator may have revoked.
-- Locks: none.
SELECT system_identifier,
  ('x' || pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8))::bit(32)::bigint
FROM pg_catalog.pg_control_system()
