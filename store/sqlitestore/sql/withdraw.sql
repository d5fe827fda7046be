-- withdraw: takes back what a call of EnqueueMany has inserted when a later message
-- of the same call is refused, so that a refused call writes nothing.
DELETE FROM {{table}}
WHERE sequence IN (SELECT value FROM json_each(?1))
