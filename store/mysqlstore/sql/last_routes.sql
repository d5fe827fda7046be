-- last_routes: where the last recorded attempt of each of some messages went.
-- Index: {{prefix}}_attempt_by_message, then the primary key.
SELECT a.sequence, a.route
FROM (
  SELECT MAX(x.id) AS id
  FROM {{attempt}} x FORCE INDEX (`{{prefix}}_attempt_by_message`)
  WHERE x.sequence IN (?1)
  GROUP BY x.sequence
) n
STRAIGHT_JOIN {{attempt}} a ON a.id = n.id
