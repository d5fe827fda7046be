-- mark: one event, unless it is marked already: 1 row is affected when it is new, 2 when
-- it is not, and 0 when the stripe is missing, which is an error.
-- Locks: the stripe of the event, then its row. Without the stripe, two that waited for a
-- third to insert the same row would deadlock whenever that was rolled back: InnoDB turns
-- their waits into locks on the gap, and each keeps the other out of it.
-- Index: the primary keys, and no other unique one.
-- Invariant: a duplicate changes the row, because with clientFoundRows one that changes
-- nothing counts as 1, too.
INSERT INTO {{table}} (consumer, event_id)
SELECT ?, ?
FROM {{stripe}}
WHERE no = ?
FOR UPDATE
ON DUPLICATE KEY UPDATE deliveries = deliveries + 1;
