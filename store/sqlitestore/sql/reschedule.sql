-- reschedule: makes a message that waits available at ?2; ?3 as in replay.
UPDATE {{table}}
SET available_at = max(?2, ?3, created_at + 1)
WHERE sequence = ?1 AND published_at IS NULL AND dead_at IS NULL
