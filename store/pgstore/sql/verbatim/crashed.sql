-- crashed: count a crash for messages that were in flight when their owner vanished.
-- Locks: their states.
INSERT INTO {{state}} (sequence, crashes)
SELECT id, 1 FROM unnest($1::bigint[]) AS id
ON CONFLICT (sequence) DO UPDATE SET crashes = {{state}}.crashes + 1
