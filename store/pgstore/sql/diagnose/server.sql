-- server: what the server does on its own account.
-- Locks: none.
SELECT pg_catalog.pg_is_in_recovery(),
       pg_catalog.current_setting('autovacuum') = 'on' AND pg_catalog.current_setting('track_counts') = 'on',
       pg_catalog.current_setting('synchronous_commit') = 'off',
       pg_catalog.current_setting('default_transaction_read_only') = 'on'
