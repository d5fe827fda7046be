package torture

// Summary counts what happened, so that a run that showed nothing is noticed.
type Summary struct {
	OK, Fail, Unknown            int // transactions
	Events                       int // committed
	Deliveries, Refused          int
	Duplicates                   int // deliveries of what the sink already had
	Dead, Transitions, Takeovers int
	Replays, Purged              int
	Interventions                int
	Faults, Hits                 int
	OutageLines, Outages         int
	LogSize                      int
}

// Summarize counts a history.
func Summarize(h *History) Summary {
	c := newChecker(h)
	c.duplicates()
	return c.summary()
}

// summary counts what a checker that has looked at the duplicates has seen.
func (c *checker) summary() Summary {
	h := c.History
	s := Summary{
		Deliveries: len(h.Deliveries), Transitions: len(h.Transitions), Outages: len(h.Outages), LogSize: len(h.LogLines),
		Replays: len(h.Replays), Interventions: len(h.Interventions), Faults: len(h.Faults), Duplicates: c.extra,
	}
	for _, f := range h.Faults {
		if f.Hit {
			s.Hits++
		}
	}
	for _, tx := range h.Transactions {
		switch tx.Outcome {
		case OK:
			s.OK++
			for _, e := range tx.Events {
				if !e.Undone {
					s.Events++
				}
			}
		case Fail:
			s.Fail++
		default:
			s.Unknown++
		}
	}
	for _, d := range h.Deliveries {
		if !d.Accepted {
			s.Refused++
		}
	}
	for _, r := range h.Final.Rows {
		if r.Dead {
			s.Dead++
		}
	}
	holders := make(map[int]string)
	for _, t := range h.Transitions {
		if t.Deleted {
			s.Purged++
			continue
		}
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
