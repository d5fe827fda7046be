-- remove: delete messages that are over, with their history. $2 is the status that they
-- must still have.
-- Locks: the messages. Index: {{prefix}}_event_id_key.
WITH d AS (
  DELETE FROM {{table}}
  WHERE event_id = ANY($1::uuid[])
    AND CASE $2::text WHEN 'published' THEN published_at IS NOT NULL
      WHEN 'dead' THEN published_at IS NULL AND dead_at IS NOT NULL AND dead_reason IS DISTINCT FROM 'discarded'
      ELSE published_at IS NULL AND dead_at IS NOT NULL AND dead_reason = 'discarded' END
  RETURNING sequence
), h AS (
  DELETE FROM {{attempt}} WHERE sequence = ANY(ARRAY(SELECT sequence FROM d))
)
SELECT pg_catalog.count(*) FROM d
