-- leave: a relay process ends, or was forgotten.
DELETE FROM {{relay}}
WHERE instance = ?1
