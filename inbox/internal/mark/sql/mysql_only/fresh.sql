-- fresh: which of the events of a mark_many were new after all. A row that was there before
-- has at least 2 deliveries by now.
-- Locks: none; the rows are this transaction's already.
-- Index: the primary key.
SELECT event_id
FROM {{table}}
WHERE consumer = ? AND deliveries = 1 AND event_id IN (?);
