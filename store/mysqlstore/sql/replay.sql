-- replay: starts messages over as a new generation, pairs of a sequence and a delay in
-- microseconds. They are available after it, but later than they were created and than
-- any batch was recorded (?2): see settle.
-- Locks: the rows. Index: the primary key, once per message.
UPDATE JSON_TABLE(CONVERT(?1 USING utf8mb4), '$[*]' COLUMNS (sequence BIGINT PATH '$[0]', delay BIGINT PATH '$[1]')) o
  STRAIGHT_JOIN {{table}} m FORCE INDEX (PRIMARY) ON m.sequence = o.sequence
SET m.replays = m.replays + 1, m.attempts = 0, m.crashes = 0, m.dead_at = NULL, m.dead_reason = NULL, m.published_at = NULL,
  m.last_error = NULL, m.routes_done = NULL,
  m.available_at = GREATEST(UTC_TIMESTAMP(6), ?2, m.created_at + INTERVAL 1 MICROSECOND) + INTERVAL o.delay MICROSECOND
