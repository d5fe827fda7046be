-- role: who this connection is, and whether it may do everything.
-- Locks: none.
SELECT CURRENT_USER(), COUNT(*)
FROM information_schema.user_privileges
WHERE grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''') AND privilege_type = 'SUPER'
