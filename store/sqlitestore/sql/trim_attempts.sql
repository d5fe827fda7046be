-- trim_attempts: keeps the newest ?2 entries of a message's history.
DELETE FROM {{attempt}}
WHERE sequence = ?1 AND no <= (SELECT max(no) FROM {{attempt}} WHERE sequence = ?1) - ?2
