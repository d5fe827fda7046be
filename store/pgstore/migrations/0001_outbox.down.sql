DROP VIEW {{schema}}"{{prefix}}_audit_actions"
-- statement
DROP VIEW {{schema}}"{{prefix}}_status"
-- statement
DROP TABLE {{attempt}}
-- statement
DROP TABLE {{relay}}
-- statement
DROP TABLE {{batch}}
-- statement
DROP TABLE {{lease}}
-- statement
DROP TABLE {{table}}
-- statement
DELETE FROM {{route}} WHERE table_name = '{{prefix}}'
-- statement
UPDATE {{job}} SET state = 'cancelled' WHERE table_name = '{{prefix}}' AND state IN ('running', 'paused')
