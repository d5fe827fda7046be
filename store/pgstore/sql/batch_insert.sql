-- batch_insert: put back a batch that a resize has split.
INSERT INTO {{batch}} (shard, epoch, no, ids, crashes, in_flight, solo, lost, beat, recorded_at, server)
VALUES ($1, $2, $3, $4::text::int8multirange, $5, $6, $7, $8, $9, $10, $11)
