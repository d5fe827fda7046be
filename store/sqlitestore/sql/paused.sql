-- paused: the routes that an operator has paused; the route '' is the whole table.
SELECT route, paused_at, COALESCE(paused_by, ''), COALESCE(reason, '')
FROM {{route}}
WHERE table_name = '{{prefix}}' AND paused_at IS NOT NULL
ORDER BY route
