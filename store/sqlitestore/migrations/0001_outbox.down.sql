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
