-- settle_failed: settles one message that was not delivered: retried, deferred or dead.
-- A dead one has ?8 and keeps its available_at; the others become available at ?4, but
-- later than they were created (so that the due part finds them) and than any batch was
-- recorded (?5, so that a recovery does not take them for in flight).
-- Invariant: the guards; attempts makes a step that is sent twice count once.
UPDATE {{table}}
SET attempts = attempts + ?6,
    last_error = COALESCE(?7, last_error),
    available_at = CASE WHEN ?8 IS NULL THEN max(?4, ?5, created_at + 1) ELSE available_at END,
    dead_at = ?8,
    dead_reason = ?9,
    routes_done = COALESCE(?10, routes_done)
WHERE sequence = ?1
  AND published_at IS NULL AND dead_at IS NULL AND replays = ?2 AND attempts = ?3
