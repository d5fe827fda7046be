-- audit: who did what to which message, and why; in the transaction that did it.
INSERT INTO {{audit}} (at, table_name, verb, event_id, sequence, actor, reason, status_before, status_after)
VALUES (?1, '{{prefix}}', ?2, ?3, ?4, ?5, ?6, ?7, ?8)
