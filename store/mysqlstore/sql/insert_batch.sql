-- insert_batch: a part of a batch that was divided.
INSERT INTO {{batch}} (shard, epoch, no, ids, crashes, in_flight, solo, lost, beat, recorded_at, server)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
