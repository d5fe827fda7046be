-- timeouts: a client that stops inside a transaction must not hold a lease row for
-- longer than the lease. Transaction-local: a session setting would leak through
-- a pooler.
SELECT pg_catalog.set_config('lock_timeout', $1, true), pg_catalog.set_config('idle_in_transaction_session_timeout', $1, true)
