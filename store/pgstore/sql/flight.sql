-- flight: where a message is in flight: with the owner of the shard of its batch.
-- Locks: none.
SELECT COALESCE(l.instance, ''), b.recorded_at
FROM {{batch}} b
JOIN {{lease}} l ON l.shard = b.shard
WHERE b.ids @> $1::bigint AND b.recorded_at >= $2
ORDER BY b.recorded_at DESC LIMIT 1
