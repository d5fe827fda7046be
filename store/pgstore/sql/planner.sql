-- planner: the plain plan for the next statement: its index, no compiled expressions,
-- no parallel workers. The planner takes a third of the table for put back, since it
-- cannot know better; with millions of retained messages it would read all of them, or
-- start workers and a compiler, to find none.
-- Transaction-local: a session setting would leak through a pooler.
SELECT pg_catalog.set_config('jit', 'off', true), pg_catalog.set_config('max_parallel_workers_per_gather', '0', true),
  pg_catalog.set_config('enable_seqscan', 'off', true)
