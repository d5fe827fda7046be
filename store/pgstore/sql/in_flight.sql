-- in_flight: what every batch holds, for counting.
-- Locks: none.
SELECT shard, ids, recorded_at FROM {{batch}} ORDER BY shard, epoch, no LIMIT 10000
