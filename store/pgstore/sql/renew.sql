-- renew: extend the lease, expired or not, as long as nobody took it.
-- Locks: the lease row.
UPDATE {{lease}}
SET expires_at = pg_catalog.clock_timestamp() + $6::bigint * interval '1 microsecond', low = $7, draining = $8
WHERE shard = $1 AND owner = $2 AND epoch = $3 AND pg_catalog.pg_postmaster_start_time() = $4
  AND pg_catalog.set_config('lock_timeout', $5, true) IS NOT NULL
RETURNING nudge, {{paused}}, {{paused_routes}}
