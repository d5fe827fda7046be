-- leftovers: what earlier owners left behind, and what an earlier try of this recovery
-- has adopted already.
-- Index: the primary key.
SELECT epoch, no, ids, crashes, in_flight, solo, beat IS NOT NULL, TIMESTAMPDIFF(MICROSECOND, {{epoch}}, recorded_at),
  TIMESTAMPDIFF(MICROSECOND, {{epoch}}, server), lost
FROM {{batch}} FORCE INDEX (PRIMARY)
WHERE shard = ?1 AND (epoch < ?2 OR epoch = ?2 AND in_flight = 0)
ORDER BY epoch, no
