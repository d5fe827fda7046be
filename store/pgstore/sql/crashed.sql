-- crashed: count a crash for messages that were in flight when their owner vanished.
-- Locks: those messages. Index: primary key.
UPDATE {{table}} SET crashes = crashes + 1
WHERE sequence = ANY($1::bigint[]) AND {{live}}
