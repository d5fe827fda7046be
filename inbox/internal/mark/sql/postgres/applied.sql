-- applied: the versions of this inbox.
SELECT version, name
FROM {{migration}}
WHERE table_name = '{{prefix}}'
ORDER BY version;
