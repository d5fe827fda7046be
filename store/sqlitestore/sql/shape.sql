-- shape: nothing, from the tables and columns that this program needs besides the
-- messages. It fails where one is missing.
SELECT a.route, a.msg_key, a.filter, a.messages, j.next_at, r.ttl, r.note, p.paused_at
FROM {{audit}} a, {{job}} j, {{relay}} r, {{route}} p
LIMIT 0
