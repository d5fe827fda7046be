-- drop_batches: makes room for the divided ones, under lock_leases.
DELETE FROM {{batch}}
