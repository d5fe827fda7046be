-- mark_many: several events whose stripes are locked. 1 row is affected for each that is
-- new, 2 for each that is not.
-- Locks: the rows.
-- Index: the primary key.
INSERT INTO {{table}} (consumer, event_id)
VALUES (?, ?)
ON DUPLICATE KEY UPDATE deliveries = deliveries + 1;
