-- delete_ids: delete_run for scattered sequences.
DELETE m FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence IN (?1) AND m.published_at IS NULL AND m.dead_at IS NULL AND m.replays = ?2
