-- situation: what a new owner needs to know, read after the acquisition committed.
-- Locks: none. Index: primary key, backwards.
SELECT COALESCE((SELECT sequence FROM {{table}} ORDER BY sequence DESC LIMIT 1), 0),
  (SELECT pg_catalog.count(*) FROM {{lease}}),
  {{paused}}, {{paused_routes}}
