-- nudge: tells every relay that an operator is about to change rows, under lock_leases.
UPDATE {{lease}}
SET nudge = nudge + 1
