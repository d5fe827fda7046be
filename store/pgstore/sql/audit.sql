-- audit: who did what and why, in the transaction of the change.
INSERT INTO {{audit}} (table_name, actor, verb, event_id, sequence, reason, status_before, status_after, route, msg_key,
  filter, messages)
VALUES ('{{prefix}}', $1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::json, $11)
