-- Least privilege for the roles around {{messages_or_table}}. The roles must exist.
-- Nobody but the owner of the tables can change the schema, and nobody at all can
-- update or delete the audit.

-- The application enqueues.
GRANT USAGE ON SCHEMA {{bare_schema}} TO {{producer}};

-- The relay reads, settles and keeps its leases.
GRANT USAGE ON SCHEMA {{bare_schema}} TO {{relay_role}};
GRANT SELECT, INSERT, UPDATE, DELETE ON {{lease}}, {{batch}}, {{relay}} TO {{relay_role}};
GRANT SELECT, INSERT, DELETE ON {{attempt}} TO {{relay_role}};
GRANT SELECT ON {{migration}}, {{route}} TO {{relay_role}};
GRANT INSERT ON {{audit}} TO {{relay_role}};

-- The cleaner deletes what retention allows.
GRANT USAGE ON SCHEMA {{bare_schema}} TO {{cleaner}};
GRANT SELECT, DELETE ON {{attempt}} TO {{cleaner}};
GRANT SELECT, UPDATE (nudge) ON {{lease}} TO {{cleaner}};
GRANT SELECT ON {{batch}}, {{migration}} TO {{cleaner}};

-- Viewers look.
GRANT USAGE ON SCHEMA {{bare_schema}} TO {{viewer}};
GRANT SELECT ON {{table}}, {{lease}}, {{batch}}, {{relay}}, {{attempt}}, {{migration}}, {{route}}, {{audit}}, {{job}},
  {{status_view}}, {{schema}}"{{prefix}}_audit_actions" TO {{viewer}};

-- Operators look and act, on the record.
GRANT USAGE ON SCHEMA {{bare_schema}} TO {{operator}};
GRANT SELECT ON {{table}}, {{lease}}, {{batch}}, {{relay}}, {{attempt}}, {{migration}}, {{route}}, {{audit}}, {{job}},
  {{status_view}}, {{schema}}"{{prefix}}_audit_actions" TO {{operator}};
GRANT DELETE ON {{attempt}} TO {{operator}};
GRANT UPDATE (nudge, owner, expires_at, draining) ON {{lease}} TO {{operator}};
GRANT INSERT ON {{audit}} TO {{operator}};
GRANT INSERT, UPDATE ON {{route}}, {{job}} TO {{operator}};
