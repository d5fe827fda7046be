-- waiting: open messages of some keys, among the first ?2 that wait at all.
-- Index: the primary key above low; {{prefix}}_held below it.
SELECT w.msg_key, w.sequence
FROM (
  (SELECT m.msg_key, m.sequence, {{open}} AS open
   FROM {{table}} m FORCE INDEX (PRIMARY)
   WHERE m.sequence > (SELECT COALESCE(MIN(l.low), 0) FROM {{lease}} l)
   ORDER BY m.sequence
   LIMIT ?2)
  UNION ALL
  (SELECT m.msg_key, m.sequence, 1
   FROM {{table}} m FORCE INDEX (`{{prefix}}_held`)
   WHERE m.held = 1 AND m.sequence <= (SELECT COALESCE(MIN(l.low), 0) FROM {{lease}} l)
   ORDER BY m.held, m.sequence
   LIMIT ?2)
) w
WHERE w.open AND CAST(w.msg_key AS BINARY) IN (?1)
