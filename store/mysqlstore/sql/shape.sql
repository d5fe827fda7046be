-- shape: nothing, from the tables and columns that this program needs besides the
-- messages. It fails where one is missing.
SELECT a.route, a.msg_key, a.filter, a.messages, j.next_at, r.ttl, r.note, p.paused_at, l.low, b.lost, h.took
FROM {{audit}} a, {{job}} j, {{relay}} r, {{route}} p, {{lease}} l, {{batch}} b, {{attempt}} h
LIMIT 0
