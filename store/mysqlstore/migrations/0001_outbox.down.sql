DROP VIEW IF EXISTS {{schema}}`{{prefix}}_audit_actions`
-- statement
DROP VIEW IF EXISTS {{schema}}`{{prefix}}_status`
-- statement
DROP TABLE IF EXISTS {{table}}
-- statement
DROP TABLE IF EXISTS {{attempt}}
-- statement
DROP TABLE IF EXISTS {{relay}}
-- statement
DROP TABLE IF EXISTS {{batch}}
-- statement
DROP TABLE IF EXISTS {{lease}}
-- statement
DELETE FROM {{route}} WHERE table_name = '{{prefix}}'
-- statement
UPDATE {{job}} SET state = 'cancelled' WHERE table_name = '{{prefix}}' AND state IN ('running', 'paused')
