-- duplicates: the messages behind event ids that exist already, and whether they
-- say the same. Runs only after an insert met a conflict.
-- Locks: none. Index: {{prefix}}_event_id_key.
SELECT m.n, t.sequence,
  (t.topic, t.msg_key, {{tenant_of_t}}, t.payload{{comparable}}) IS NOT DISTINCT FROM (m.topic, m.msg_key, m.tenant, m.payload{{comparable}}) AS same
FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::{{payload}}[]) AS m(n, id, topic, msg_key, tenant, payload)
JOIN {{table}} t ON t.event_id = m.id
WHERE t.event_id = ANY($2::uuid[])
