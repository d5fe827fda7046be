-- applied: the schema versions this outbox has reached.
SELECT version, name, TIMESTAMPDIFF(MICROSECOND, {{epoch}}, applied_at)
FROM {{migration}}
WHERE table_name = '{{prefix}}'
ORDER BY version
