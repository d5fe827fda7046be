-- all: candidates of a list in sequence order, whether each fits the filter, and its
-- topic; at most ?8 are looked at. ?1 is now.
-- Index: the primary key.
SELECT m.sequence, m.topic, (?4 = '' OR m.tenant_id = ?4) AND (?5 = '' OR m.msg_key = ?5)
    AND substr(m.topic, 1, length(?6)) = ?6 AND (?7 = '' OR {{status}} = ?7)
FROM {{table}} m
WHERE m.sequence > ?2 AND m.sequence < ?3
ORDER BY m.sequence {{order}}
LIMIT ?8
