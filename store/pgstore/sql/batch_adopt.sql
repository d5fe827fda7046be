-- batch_adopt: re-key batches to the new epoch under new numbers, not in flight.
UPDATE {{batch}} b
SET epoch = $2, no = a.new_no, in_flight = false, lost = a.lost, crashes = a.crashes
FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::boolean[], $7::smallint[]) AS a(epoch, no, new_no, lost, crashes)
WHERE b.shard = $1 AND b.epoch = a.epoch AND b.no = a.no
