-- insert_lease: one shard and its range of slots.
INSERT INTO {{lease}} (shard, slot_lo, slot_hi, epoch, low, nudge)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
