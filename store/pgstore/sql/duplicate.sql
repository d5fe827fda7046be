-- duplicate: duplicates.sql for one message and drivers without arrays. The
-- sequence comes back negative when the content is another.
-- Locks: none. Index: {{prefix}}_event_id_key.
SELECT CASE WHEN (topic, msg_key, {{tenant}}, payload{{comparable}}) IS NOT DISTINCT FROM ($2::text, $3::text, $4::text, $5::{{payload}}{{comparable}})
  THEN sequence ELSE -sequence END
FROM {{table}}
WHERE event_id = $1
