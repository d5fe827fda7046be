package torture

import "time"

// takeovers are how long the shards of killed relays waited for another owner.
func (h *History) takeovers() (list []time.Duration) {
	for _, f := range h.Faults {
		if f.Kind != KillRelay || len(f.Targets) != 1 {
			continue
		}
		if d := h.takeover(f.Targets[0], f.From); d > 0 && h.quiet(f.From+1, f.From+int64(d)) {
			list = append(list, d)
		}
	}
	return list
}

// takeover is how long the first shard that a process held at a moment waited for its
// next owner; 0 when it held none.
func (h *History) takeover(name string, at int64) time.Duration {
	holders := make(map[int]string)
	for _, l := range h.Handovers {
		when := h.mono(l.At)
		switch {
		case when > at && l.Held && holders[l.Shard] == name:
			return time.Duration(when - at)
		case l.Held:
			holders[l.Shard] = l.Instance
		default:
			delete(holders, l.Shard)
		}
	}
	return 0
}

// handovers are how long shards that were given back waited for another owner.
func (h *History) handovers() (list []time.Duration) {
	released := make(map[int]int64)
	for _, l := range h.Handovers {
		at := h.mono(l.At)
		if !l.Held {
			released[l.Shard] = at
			continue
		}
		if from := released[l.Shard]; from > 0 && h.quiet(from, at) {
			list = append(list, time.Duration(at-from))
		}
		delete(released, l.Shard)
	}
	return list
}

// quiet: no fault that can hinder a relay begins in that time or lasts into it.
func (h *History) quiet(from, to int64) bool {
	for _, f := range h.Faults {
		if f.From <= to && f.To >= from && f.From != from-1 && !harmless[f.Kind] {
			return false
		}
	}
	return true
}
