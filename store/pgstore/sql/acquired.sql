-- acquired: the lease behind a token, for an acquisition whose answer was lost.
-- Locks: none. The previous owner is forgotten by then: nobody is excused.
SELECT shard, slot_lo, slot_hi, epoch, low, nudge, '' AS instance, false AS draining, false AS takeover
FROM {{lease}} WHERE owner = $1
