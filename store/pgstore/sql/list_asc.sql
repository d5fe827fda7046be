-- list_asc: a page of messages without their payloads, oldest first. At most $3 rows are
-- looked at, whatever the filter; slice_asc says where that ended.
-- Locks: none. Index: primary key, or {{prefix}}_dead (the CASE folds to its condition).
SELECT {{listed}}
FROM (
  SELECT * FROM {{table}}
  WHERE sequence > $1 AND sequence < $2 AND CASE WHEN $5::boolean THEN dead_at IS NOT NULL ELSE true END
  ORDER BY sequence LIMIT $3
) m
WHERE CASE WHEN $6::text = '' THEN true ELSE {{status}} = $6::text END
  AND CASE WHEN $7::text = '' THEN true ELSE topic ~ $7::text END
  AND CASE WHEN $8::text = '' THEN true ELSE msg_key = $8::text END
  AND CASE WHEN $9::text = '' THEN true ELSE {{tenant}} = $9::text END
  AND CASE WHEN $10::text = '' THEN true ELSE dead_reason = $10::text END
  AND CASE WHEN $11::text = '' THEN true ELSE {{last_route}} = $11::text END
  AND CASE WHEN $12::timestamptz IS NULL THEN true ELSE CASE WHEN $5::boolean THEN dead_at ELSE created_at END >= $12::timestamptz END
  AND CASE WHEN $13::timestamptz IS NULL THEN true ELSE CASE WHEN $5::boolean THEN dead_at ELSE created_at END < $13::timestamptz END
ORDER BY sequence LIMIT $4
