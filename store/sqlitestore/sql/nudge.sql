-- nudge: tells the relay that an operator is about to change rows.
UPDATE {{lease}}
SET nudge = nudge + 1
