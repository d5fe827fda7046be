-- horizon: what keeps vacuum from removing old versions of rows, the oldest first.
-- Other roles' transactions are seen by superusers and members of pg_monitor only.
-- Locks: none.
SELECT what, fix, seconds FROM (
  SELECT pg_catalog.format('a transaction of %s (pid %s, %s)', COALESCE(NULLIF(a.application_name, ''), a.usename, 'unknown'), a.pid, a.state) AS what,
         pg_catalog.format('SELECT pg_terminate_backend(%s), when nobody needs it', a.pid) AS fix,
         EXTRACT(epoch FROM pg_catalog.clock_timestamp() - a.xact_start)::float8 AS seconds
  FROM pg_catalog.pg_stat_activity a
  WHERE a.xact_start IS NOT NULL AND a.pid <> pg_catalog.pg_backend_pid() AND a.backend_type = 'client backend'
    AND a.datname = pg_catalog.current_database()
  UNION ALL
  SELECT pg_catalog.format('the prepared transaction %s of %s', p.gid, p.owner),
         pg_catalog.format('COMMIT PREPARED or ROLLBACK PREPARED %L', p.gid),
         EXTRACT(epoch FROM pg_catalog.clock_timestamp() - p.prepared)::float8
  FROM pg_catalog.pg_prepared_xacts p
  WHERE p.database = pg_catalog.current_database()
) held
WHERE seconds > $1::float8
ORDER BY seconds DESC
LIMIT 5
