package torture

import "github.com/google/uuid"

// Summary counts what happened, so that a run that showed nothing is noticed.
type Summary struct {
	OK, Fail, Unknown             int // transactions
	Events, Deliveries, Refused   int
	Duplicates                    int // accepted deliveries beyond the first of each event
	Dead, Transitions, Takeovers  int
	OutageLines, Outages, LogSize int
}

// Summarize counts a history.
func Summarize(h *History) Summary {
	s := Summary{Deliveries: len(h.Deliveries), Transitions: len(h.Transitions), Outages: len(h.Outages), LogSize: len(h.LogLines)}
	for _, tx := range h.Transactions {
		switch tx.Outcome {
		case OK:
			s.OK++
			s.Events += len(tx.Events)
		case Fail:
			s.Fail++
		default:
			s.Unknown++
		}
	}
	accepted := make(map[uuid.UUID]bool)
	for _, d := range h.Deliveries {
		switch {
		case !d.Accepted:
			s.Refused++
		case accepted[d.Event]:
			s.Duplicates++
		}
		accepted[d.Event] = accepted[d.Event] || d.Accepted
	}
	for _, r := range h.Final.Rows {
		if r.Dead {
			s.Dead++
		}
	}
	holders := make(map[int]string)
	for _, t := range h.Transitions {
		if before, ok := holders[t.Shard]; ok && before != t.Holder {
			s.Takeovers++
		}
		holders[t.Shard] = t.Holder
	}
	for _, o := range h.Outages {
		for _, l := range h.LogLines {
			if l.At.After(o.From) && l.At.Before(o.To) {
				s.OutageLines++
			}
		}
	}
	return s
}
