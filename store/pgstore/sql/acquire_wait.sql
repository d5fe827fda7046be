-- acquire_wait: acquire for the case that every free or expired lease is locked by
-- somebody: it waits for at most $6 ms, and takes what is then still free.
-- Locks: that lease row.
-- Invariant: nothing else is read here. The statement's snapshot may be older than
-- the last settle of the previous owner, so Recover and Read come in later ones.
-- What is taken is chosen once: a subquery in FROM may be run for each row of the
-- table, and would find another lease each time.
WITH p AS MATERIALIZED (
  SELECT shard, owner, instance, draining FROM {{lease}}
  WHERE (owner IS NULL OR expires_at < pg_catalog.clock_timestamp())
    AND pg_catalog.set_config('lock_timeout', $6, true) IS NOT NULL
  ORDER BY shard
  LIMIT 1
  FOR UPDATE
)
UPDATE {{lease}} l
SET owner = $1, instance = $2, epoch = l.epoch + 1, draining = false, system_id = $4, timeline = $5,
    expires_at = pg_catalog.clock_timestamp() + $3::bigint * interval '1 microsecond'
FROM p
WHERE l.shard = p.shard AND (l.owner IS NULL OR l.expires_at < pg_catalog.clock_timestamp())
RETURNING l.shard, l.slot_lo, l.slot_hi, l.epoch, l.low, l.nudge, COALESCE(p.instance, ''), p.draining, p.owner IS NOT NULL
