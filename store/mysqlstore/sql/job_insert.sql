-- job_insert: records a bulk change before it begins.
INSERT INTO {{job}} (id, table_name, verb, filter, expect, cap, rate, actor, reason, state, total, cut, created_at, updated_at)
VALUES (?1, '{{prefix}}', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?11)
