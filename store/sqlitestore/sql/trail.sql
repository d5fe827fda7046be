-- trail: audit entries, newest first.
-- Index: the primary key backwards, or outbox_audit_event.
SELECT id, at, actor, verb, COALESCE(event_id, ''), COALESCE(sequence, 0), reason, COALESCE(status_before, ''),
  COALESCE(status_after, ''), route, msg_key, COALESCE(filter, ''), messages
FROM {{audit}}
WHERE table_name = '{{prefix}}' AND id < ?1 AND (?2 IS NULL OR event_id = ?2) AND (?3 = '' OR verb = ?3)
  AND (?4 = '' OR actor = ?4)
ORDER BY id DESC
LIMIT ?5
