-- drop_leases: makes room for others, under lock_leases.
DELETE FROM {{lease}}
