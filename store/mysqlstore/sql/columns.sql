-- columns: what the table looks like.
SELECT c.column_name, c.data_type, COALESCE(c.character_maximum_length, 0), COALESCE(c.datetime_precision, 0),
  COALESCE(c.collation_name, ''), t.engine
FROM information_schema.tables t
JOIN information_schema.columns c ON c.table_schema = t.table_schema AND c.table_name = t.table_name
WHERE t.table_schema = COALESCE(NULLIF(?1, ''), DATABASE()) AND t.table_name = ?2
ORDER BY c.ordinal_position
