-- acquire: take one lease that is free or has expired.
-- Locks: that lease row. SKIP LOCKED is a courtesy to whoever is writing under it;
-- what makes it safe is the condition repeated on the row that is updated.
-- Invariant: nothing else is read here. The statement's snapshot may be older than
-- the last settle of the previous owner, so Recover and Read come in later ones.
-- What is taken is chosen once: a subquery in FROM may be run for each row of the
-- table, and would find another lease each time.
WITH p AS MATERIALIZED (
  SELECT shard, owner, instance, draining FROM {{lease}}
  WHERE owner IS NULL OR expires_at < pg_catalog.clock_timestamp()
  ORDER BY shard
  LIMIT 1
  FOR UPDATE SKIP LOCKED
)
UPDATE {{lease}} l
SET owner = $1, instance = $2, epoch = l.epoch + 1, draining = false, system_id = $4, timeline = $5,
    expires_at = pg_catalog.clock_timestamp() + $3::bigint * interval '1 microsecond'
FROM p
WHERE l.shard = p.shard AND (l.owner IS NULL OR l.expires_at < pg_catalog.clock_timestamp())
RETURNING l.shard, l.slot_lo, l.slot_hi, l.epoch, l.low, l.nudge, COALESCE(p.instance, ''), p.draining, p.owner IS NOT NULL
