-- role: who this connection is and what it could do beyond its work. The catalogs
-- answer whoever asks.
-- Locks: none.
SELECT current_user::text, r.rolsuper, pg_catalog.pg_has_role(c.relowner, 'MEMBER'),
       pg_catalog.has_table_privilege('{{audit}}', 'UPDATE, DELETE, TRUNCATE')
FROM pg_catalog.pg_class c, pg_catalog.pg_roles r
WHERE c.oid = $1::text::regclass AND r.rolname = current_user
