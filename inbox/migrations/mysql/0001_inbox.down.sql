DROP TABLE IF EXISTS {{table}}
-- statement
DROP TABLE IF EXISTS {{stripe}}
