-- slots_of: the slots of messages.
-- Index: the primary key.
SELECT sequence, slot
FROM {{table}} FORCE INDEX (PRIMARY)
WHERE sequence IN (?1)
