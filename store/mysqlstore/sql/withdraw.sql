-- withdraw: takes back what a call of EnqueueMany has inserted when a later message of
-- the same call is refused, so that a refused call writes nothing.
-- Index: the primary key.
DELETE m FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence IN (?1)
