-- situation: what a new owner needs to know, read after its acquisition was committed.
SELECT (SELECT COALESCE(MAX(sequence), 0) FROM {{table}}), (SELECT COUNT(*) FROM {{lease}}),
  TIMESTAMPDIFF(MICROSECOND, {{epoch}}, UTC_TIMESTAMP(6))
