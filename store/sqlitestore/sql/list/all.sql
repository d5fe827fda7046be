-- all: candidates of a list in sequence order, whether each fits the filter, and what
-- only the program can judge: its topic and, if ?13, its error. At most ?8 are looked at.
-- Index: the primary key.
SELECT m.sequence, {{fits}}
FROM {{table}} m
WHERE m.sequence > ?2 AND m.sequence < ?3
ORDER BY m.sequence {{order}}
LIMIT ?8
