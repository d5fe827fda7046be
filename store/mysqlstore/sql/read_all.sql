-- read_all: every sequence of the fresh part; those that are settled or of other slots
-- without their payload, as part 1.
-- Index: the primary key.
SELECT IF({{open}} AND m.slot BETWEEN ?2 AND ?3, 0, 1), {{record}}, IF({{open}} AND m.slot BETWEEN ?2 AND ?3, m.payload, NULL)
FROM {{table}} m FORCE INDEX (PRIMARY)
WHERE m.sequence > ?1
ORDER BY m.sequence
LIMIT ?4
