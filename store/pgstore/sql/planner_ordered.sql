-- planner_ordered: as planner, and rows in the order of an index rather than all of them
-- sorted: an operator looks at a few of many.
-- Transaction-local: a session setting would leak through a pooler.
SELECT pg_catalog.set_config('jit', 'off', true), pg_catalog.set_config('max_parallel_workers_per_gather', '0', true),
  pg_catalog.set_config('enable_seqscan', 'off', true), pg_catalog.set_config('enable_bitmapscan', 'off', true)
