-- batches_drop: take all batches out, for a resize to put back where they belong.
DELETE FROM {{batch}}
RETURNING shard, ids, crashes, in_flight, solo, lost, beat, recorded_at, server
