-- jobs: one bulk change, or the newest.
-- Locks: none.
SELECT {{job_columns}}, pg_catalog.clock_timestamp()
FROM {{job}}
WHERE table_name = '{{prefix}}' AND CASE WHEN $1::uuid IS NULL THEN true ELSE id = $1::uuid END
ORDER BY created_at DESC, id LIMIT $2
