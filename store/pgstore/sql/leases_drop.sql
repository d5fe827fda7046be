-- leases_drop: part of a resize, under leases_lock.
DELETE FROM {{lease}}
