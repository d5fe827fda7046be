-- unsettled: which of some messages are neither published nor dead, and since when
-- they were available: one that was put back is not in flight any more.
-- Locks: none. Index: primary key.
SELECT sequence, available_at, attempts FROM {{table}}
WHERE sequence = ANY($1::bigint[]) AND {{live}}
