-- leave: a relay process ends.
DELETE FROM {{relay}}
WHERE instance = ?1
