-- replay_dead: send dead messages again, each after its delay (microseconds).
-- Locks: the messages; the leases are locked already. Index: {{prefix}}_event_id_key.
-- Invariant: only what is dead still. Somebody else may have replayed one meanwhile.
UPDATE {{table}} t
SET replays = t.replays + 1, attempts = 0, crashes = 0, dead_at = NULL, dead_reason = NULL, last_error = NULL, routes_done = NULL,
    available_at = GREATEST(pg_catalog.clock_timestamp(), t.created_at + interval '1 microsecond') + o.delay * interval '1 microsecond'
FROM unnest($1::uuid[], $2::bigint[]) AS o(event_id, delay)
WHERE t.event_id = o.event_id AND t.event_id = ANY($1::uuid[])
  AND t.dead_at IS NOT NULL AND t.published_at IS NULL AND t.dead_reason IS DISTINCT FROM 'discarded'
