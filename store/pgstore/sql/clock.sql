-- clock: the database's time.
SELECT pg_catalog.clock_timestamp()
