-- batches: what earlier owners left behind, and what an earlier try of this
-- recovery has adopted already. A batch is lost when it was in flight and nobody
-- excuses it: not the caller ($3), who speaks for the last owner alone, and not the
-- server by having been restarted since.
-- Locks: none beyond the lease row of the transaction.
SELECT epoch, no, ids, crashes, solo, beat IS NOT NULL, recorded_at,
  CASE WHEN epoch = $2 THEN lost
    ELSE in_flight AND NOT ($3::boolean AND epoch = $2 - 1) AND server = pg_catalog.pg_postmaster_start_time() END
FROM {{batch}}
WHERE shard = $1 AND (epoch < $2 OR epoch = $2 AND NOT in_flight)
ORDER BY epoch, no
