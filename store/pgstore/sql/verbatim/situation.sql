-- situation: as in the full layout, without the highest sequence: it has no index on
-- this layout, and nobody asks for gaps there.
-- Locks: none.
SELECT 0::bigint, (SELECT pg_catalog.count(*) FROM {{lease}}), {{paused}}, {{paused_routes}}
