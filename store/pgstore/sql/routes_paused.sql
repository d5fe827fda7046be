-- routes_paused: the routes that an operator has paused; '' is the whole table.
-- Locks: none.
SELECT route, paused_at, COALESCE(paused_by, ''), COALESCE(reason, '')
FROM {{route}}
WHERE table_name = '{{prefix}}' AND paused_at IS NOT NULL
ORDER BY route COLLATE "C"
