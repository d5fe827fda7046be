-- replay: starts a message over as a new generation. It is available ?4 after now, but
-- later than it was created and than any batch was recorded (?3): see settle_failed.
UPDATE {{table}}
SET replays = replays + 1, attempts = 0, crashes = 0, dead_at = NULL, dead_reason = NULL,
    published_at = NULL, last_error = NULL, routes_done = NULL,
    available_at = max(?2, ?3, created_at + 1) + ?4
WHERE sequence = ?1
