-- reschedule: make messages that wait available at a time, but not before now.
-- Locks: the messages; the leases are locked already. Index: {{prefix}}_event_id_key.
UPDATE {{messages_or_table}}
SET available_at = GREATEST($2::timestamptz, pg_catalog.clock_timestamp(), created_at + interval '1 microsecond')
WHERE event_id = ANY($1::uuid[]) AND published_at IS NULL
