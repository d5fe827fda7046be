-- insert_many: any number of messages in one statement, in the order given.
-- Locks: the new rows only.
-- Invariant: payloads travel as an array of the column's own type; text and a
-- cast would cost a tenth.
INSERT INTO {{table}} (event_id, topic, msg_key, tenant_id, payload, available_at, headers, content_type,
  aggregate_type, aggregate_id, event_type, event_version, traceparent, tracestate)
SELECT id, topic, msg_key, {{tenant_element}}, payload, COALESCE(available_at, pg_catalog.now()), NULLIF(headers, '')::json,
  NULLIF(content_type, ''), NULLIF(aggregate_type, ''), NULLIF(aggregate_id, ''), NULLIF(event_type, ''),
  NULLIF(event_version, 0), NULLIF(traceparent, ''), NULLIF(tracestate, '')
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::{{payload}}[], $6::timestamptz[], $7::text[],
  $8::text[], $9::text[], $10::text[], $11::text[], $12::integer[], $13::text[], $14::text[])
  AS m(id, topic, msg_key, tenant, payload, available_at, headers, content_type, aggregate_type, aggregate_id,
    event_type, event_version, traceparent, tracestate)
RETURNING sequence, event_id
