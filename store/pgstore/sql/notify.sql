-- notify: wake the relays that listen. Never part of a business transaction: NOTIFY
-- makes commits wait for one another.
SELECT pg_catalog.pg_notify($1, '')
