-- purge_candidates: the messages purge_delete would delete, for an archive.
-- Locks: none. Index: primary key.
SELECT {{shown}}
FROM {{table}} m
WHERE sequence > $1 AND sequence <= $2 AND published_at < pg_catalog.now() - $3::bigint * interval '1 microsecond'
ORDER BY sequence LIMIT $4
