-- all_batches: what is left in flight, to be divided anew, under lock_leases.
SELECT shard, ids, crashes, in_flight, solo, lost, beat IS NOT NULL, TIMESTAMPDIFF(MICROSECOND, {{epoch}}, recorded_at),
  TIMESTAMPDIFF(MICROSECOND, {{epoch}}, server)
FROM {{batch}}
ORDER BY shard, epoch, no
