-- crashed: counts a crash for every message of a lost batch.
UPDATE {{table}}
SET crashes = crashes + 1
WHERE sequence IN (SELECT value FROM json_each(?1))
