-- remove: deletes messages (?1, JSON) that are published or dead.
DELETE FROM {{table}}
WHERE sequence IN (SELECT value FROM json_each(?1)) AND (published_at IS NOT NULL OR dead_at IS NOT NULL)
