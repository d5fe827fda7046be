-- Least privilege for the roles around {{table}}. The roles must exist.
-- Nobody but the owner of the tables can change the schema, and nobody at all can
-- update or delete the audit.

-- The application enqueues. It reads back only what a duplicate is compared with.
GRANT USAGE ON SCHEMA {{bare_schema}} TO {{producer}};
GRANT INSERT (event_id, topic, msg_key, tenant_id, payload, available_at, headers, content_type, aggregate_type,
  aggregate_id, event_type, event_version, traceparent, tracestate) ON {{table}} TO {{producer}};
GRANT SELECT (sequence, event_id, topic, msg_key, tenant_id, payload) ON {{table}} TO {{producer}};

-- The relay reads, settles and keeps its leases.
GRANT USAGE ON SCHEMA {{bare_schema}} TO {{relay_role}};
GRANT SELECT, UPDATE, DELETE ON {{table}} TO {{relay_role}};
GRANT SELECT, INSERT, UPDATE, DELETE ON {{lease}}, {{batch}}, {{relay}} TO {{relay_role}};
GRANT SELECT, INSERT, DELETE ON {{attempt}} TO {{relay_role}};
GRANT SELECT ON {{migration}}, {{route}} TO {{relay_role}};
GRANT INSERT ON {{audit}} TO {{relay_role}};

-- The cleaner deletes what retention allows.
GRANT USAGE ON SCHEMA {{bare_schema}} TO {{cleaner}};
GRANT SELECT, DELETE ON {{table}}, {{attempt}} TO {{cleaner}};
GRANT SELECT, UPDATE (nudge) ON {{lease}} TO {{cleaner}};
GRANT SELECT ON {{batch}}, {{migration}} TO {{cleaner}};

-- Viewers look.
GRANT USAGE ON SCHEMA {{bare_schema}} TO {{viewer}};
GRANT SELECT ON {{table}}, {{lease}}, {{batch}}, {{relay}}, {{attempt}}, {{migration}}, {{route}}, {{audit}}, {{job}},
  {{schema}}"{{prefix}}_status", {{schema}}"{{prefix}}_audit_actions" TO {{viewer}};

-- Operators look and act, on the record.
GRANT USAGE ON SCHEMA {{bare_schema}} TO {{operator}};
GRANT SELECT ON {{table}}, {{lease}}, {{batch}}, {{relay}}, {{attempt}}, {{migration}}, {{route}}, {{audit}}, {{job}},
  {{schema}}"{{prefix}}_status", {{schema}}"{{prefix}}_audit_actions" TO {{operator}};
GRANT UPDATE (replays, attempts, crashes, dead_at, dead_reason, published_at, last_error, routes_done, available_at)
  ON {{table}} TO {{operator}};
GRANT DELETE ON {{table}}, {{attempt}} TO {{operator}};
GRANT UPDATE (nudge, owner, expires_at, draining) ON {{lease}} TO {{operator}};
GRANT INSERT ON {{audit}} TO {{operator}};
GRANT INSERT, UPDATE ON {{route}}, {{job}} TO {{operator}};
