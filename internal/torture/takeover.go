package torture

import (
	"slices"
	"time"
)

// An End is the end of a relay process: asked for with SIGTERM, or of a kill.
type End struct {
	Process string
	At      int64 // when it was killed or asked
	Asked   bool
}

// takeovers are how long the shards of killed relays waited for another owner.
func (h *History) takeovers() []time.Duration { return h.waits(false) }

// handovers are how long it took from SIGTERM until another owner had the shard:
// finishing what is in flight, settling it, giving the lease back and taking it.
func (h *History) handovers() []time.Duration { return h.waits(true) }

// waits times how each shard of a relay that ended came to its next owner, where
// nothing else came between.
func (h *History) waits(asked bool) (list []time.Duration) {
	for _, end := range h.Ends {
		if end.Asked != asked {
			continue
		}
		for _, next := range h.successors(end) {
			if to := h.mono(next.At); h.undisturbed(end, to) {
				list = append(list, time.Duration(to-end.At))
			}
		}
	}
	return list
}

// successors are the next owners of the shards that a process held when it ended.
func (h *History) successors(end End) (list []Handover) {
	held := make(map[int]bool)
	for _, l := range h.Handovers {
		switch after := h.mono(l.At) > end.At; {
		case !after:
			held[l.Shard] = l.Held && l.Instance == end.Process
		case held[l.Shard] && l.Held:
			list = append(list, l)
			held[l.Shard] = false
		}
	}
	return list
}

// undisturbed: no other relay ended, and no other fault that can hinder a relay began
// or lasted, until then.
func (h *History) undisturbed(end End, to int64) bool {
	another := slices.ContainsFunc(h.Ends, func(e End) bool {
		return e.Process != end.Process && e.At >= end.At && e.At <= to
	})
	return !another && !slices.ContainsFunc(h.Faults, func(f Fault) bool {
		own := f.From <= end.At && f.To >= end.At && slices.Contains(f.Targets, end.Process)
		return !own && !aside[f.Kind] && f.From <= to && f.To >= end.At
	})
}

// aside are the faults that do not keep a relay from taking a lease.
var aside = map[string]bool{
	SinkDown: true, SinkFoggy: true, KillProducer: true, PauseProducer: true, DropCommits: true,
}

// takeoverBound is how long a shard may wait after its owner was killed.
func (l Limits) takeoverBound() time.Duration { return l.Lease + 2*l.Poll }

// handoverBound is how long a shard may wait after its owner was asked to stop.
const handoverBound = 500 * time.Millisecond

// within counts the durations that are no longer than a bound.
func within(list []time.Duration, bound time.Duration) (n int) {
	for _, d := range list {
		if d <= bound {
			n++
		}
	}
	return n
}
