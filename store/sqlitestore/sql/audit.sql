-- audit: who did what to which message, and why; in the transaction that did it.
INSERT INTO {{audit}} (at, table_name, actor, verb, event_id, sequence, reason, status_before, status_after,
  route, msg_key, filter, messages)
VALUES (?1, '{{prefix}}', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
