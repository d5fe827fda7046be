-- find: the ids of unpublished messages that the lease does not remember.
-- Locks: none. Index: the pending index, whole; the range is checked in the index.
-- Invariant: sequence + 0. As an index condition the list would scan the index once
-- for each element.
SELECT sequence, id FROM {{messages}}
WHERE published_at IS NULL AND sequence BETWEEN $1 AND $2 AND sequence + 0 = ANY($3::bigint[])
