DROP VIEW "{{prefix}}_audit_actions"
-- statement
DROP VIEW "{{prefix}}_status"
-- statement
DROP TABLE {{table}}
-- statement
DROP TABLE {{attempt}}
-- statement
DROP TABLE {{relay}}
-- statement
DROP TABLE {{batch}}
-- statement
DROP TABLE {{lease}}
-- statement
DELETE FROM {{route}} WHERE table_name = '{{prefix}}'
-- statement
UPDATE {{job}} SET state = 'cancelled' WHERE table_name = '{{prefix}}' AND state IN ('running', 'paused')
