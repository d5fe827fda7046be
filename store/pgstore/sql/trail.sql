-- trail: audit entries, newest first.
-- Locks: none. Index: the primary key backwards, or outbox_audit_event.
SELECT id, at, actor, verb, event_id, COALESCE(sequence, 0), reason, COALESCE(status_before, ''), COALESCE(status_after, ''),
  route, msg_key, COALESCE(filter::text, ''), messages
FROM {{audit}}
WHERE table_name = '{{prefix}}' AND id < $1 AND CASE WHEN $2::uuid IS NULL THEN true ELSE event_id = $2::uuid END
  AND CASE WHEN $3::text = '' THEN true ELSE verb = $3::text END
  AND CASE WHEN $4::text = '' THEN true ELSE actor = $4::text END
ORDER BY id DESC LIMIT $5
