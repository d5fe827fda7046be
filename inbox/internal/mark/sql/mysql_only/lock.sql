-- lock: the stripes of several events, before mark_many.
-- Locks: the rows, in the order of the primary key, so that nobody waits in a circle.
-- Index: the primary key.
SELECT no
FROM {{stripe}}
WHERE no IN (?)
ORDER BY no
FOR UPDATE;
