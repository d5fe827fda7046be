-- job_update: how far a bulk change is, in the transaction that made the step.
UPDATE {{job}}
SET state = ?2, done = ?3, cursor = ?4, next_at = ?5, driver = ?6, driven_at = ?7, updated_at = ?8
WHERE id = ?1
