-- read_clock: the part of every read that says whether the lease is held: no row, no
-- lease. It also brings the server, the time and whether the session commits by itself.
SELECT -1 AS part, @@server_id, TIMESTAMPDIFF(MICROSECOND, {{epoch}}, UTC_TIMESTAMP(6)), 0, @@autocommit, 0, 0, 0, 0,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM {{lease}}
WHERE shard = ?1 AND owner = ?2 AND epoch = ?3
