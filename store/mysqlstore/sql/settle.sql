-- settle: outcomes with a value per message, for rows that lock_open has found to match.
-- A put-back message becomes available later than it was created (so that the due part
-- finds it) and than any batch was recorded (so that a recovery does not take it for in
-- flight); the caller saw to the latter.
-- Locks: the rows. Index: the primary key, once per outcome.
UPDATE JSON_TABLE(CONVERT(?1 USING utf8mb4), '$[*]' COLUMNS (
    sequence BIGINT PATH '$.sequence',
    spent INT PATH '$.spent',
    available_at DATETIME(6) PATH '$.available_at',
    published_at DATETIME(6) PATH '$.published_at',
    dead_at DATETIME(6) PATH '$.dead_at',
    dead_reason VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.dead_reason',
    keep_error INT PATH '$.keep_error',
    last_error MEDIUMTEXT CHARACTER SET utf8mb4 PATH '$.last_error',
    routes_done MEDIUMTEXT CHARACTER SET utf8mb4 PATH '$.routes_done'
  )) o
  STRAIGHT_JOIN {{table}} m FORCE INDEX (PRIMARY) ON m.sequence = o.sequence
SET m.attempts = m.attempts + o.spent,
  m.available_at = COALESCE(GREATEST(o.available_at, m.created_at + INTERVAL 1 MICROSECOND), m.available_at),
  m.published_at = o.published_at,
  m.dead_at = o.dead_at,
  m.dead_reason = o.dead_reason,
  m.last_error = IF(o.keep_error = 1, m.last_error, o.last_error),
  m.routes_done = COALESCE(o.routes_done, m.routes_done)
