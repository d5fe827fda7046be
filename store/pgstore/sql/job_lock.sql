-- job_lock: a bulk change that is about to go on, and the time.
-- Locks: the job. Jobs are locked before leases.
SELECT {{job_columns}}, pg_catalog.clock_timestamp()
FROM {{job}}
WHERE table_name = '{{prefix}}' AND id = $1
FOR UPDATE
