-- remove: as in the full layout, with the state.
-- Locks: the messages and their states.
WITH d AS (
  DELETE FROM {{messages}} m
  WHERE m.event_id = ANY($1::uuid[])
    AND CASE $2::text WHEN 'published' THEN m.published_at IS NOT NULL
      WHEN 'dead' THEN m.published_at IS NULL AND EXISTS (SELECT 1 FROM {{state}} s WHERE s.sequence = m.sequence
        AND s.dead_at IS NOT NULL AND s.dead_reason IS DISTINCT FROM 'discarded')
      ELSE m.published_at IS NULL AND EXISTS (SELECT 1 FROM {{state}} s WHERE s.sequence = m.sequence AND s.dead_reason = 'discarded') END
  RETURNING m.sequence
), s AS (
  DELETE FROM {{state}} WHERE sequence = ANY(ARRAY(SELECT sequence FROM d))
), h AS (
  DELETE FROM {{attempt}} WHERE sequence = ANY(ARRAY(SELECT sequence FROM d))
)
SELECT pg_catalog.count(*) FROM d
