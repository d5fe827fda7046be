-- uptime: for how many seconds the server has been running. There is no other way to
-- ask that both MariaDB and MySQL know and that needs no privilege.
SHOW GLOBAL STATUS LIKE 'Uptime'
