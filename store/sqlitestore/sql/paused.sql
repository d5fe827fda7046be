-- paused: has an operator paused the whole table?
SELECT count(*)
FROM {{route}}
WHERE table_name = '{{prefix}}' AND route = '' AND paused_at IS NOT NULL
