-- leases_insert: contiguous ranges of the 256 slots, one per shard, in the highest
-- epoch so far: a relay of the old shards holds none of them.
INSERT INTO {{lease}} (shard, slot_lo, slot_hi, epoch, low, nudge)
SELECT i, i * 256 / $1::integer, (i + 1) * 256 / $1::integer - 1, $2, $3, $4
FROM pg_catalog.generate_series(0, $1::integer - 1) AS i
