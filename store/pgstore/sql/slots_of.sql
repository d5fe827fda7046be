-- slots_of: which slots some messages belong to.
-- Locks: none. Index: primary key.
SELECT sequence, {{slot}} FROM {{table}} WHERE sequence = ANY($1::bigint[])
