-- known: which of several events are marked, before mark_many marks the others.
-- Locks: none, and that is the point: mark_many would lock the gaps beside the duplicates,
-- and two batches could keep each other out of them.
-- Index: the primary key.
-- Invariant: it comes after lock. If it is the first to read in its transaction, it sees
-- every mark; if it is not, mark_many finds what it missed.
SELECT event_id
FROM {{table}}
WHERE consumer = ? AND event_id IN (?);
