-- delete_run: publish_run for tables that keep nothing.
DELETE m FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence BETWEEN ?1 AND ?2 AND m.published_at IS NULL AND m.dead_at IS NULL AND m.replays = ?3
