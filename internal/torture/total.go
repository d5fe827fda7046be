package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Line is a verdict in one line.
func Line(v *Verdict) string {
	s := v.Summary
	result := "every promise kept"
	if !v.OK() {
		result = fmt.Sprintf("%d VIOLATIONS", len(v.Violations))
	}
	return fmt.Sprintf("%s seed %d: %s; %d events, %d faults (%d hit), %d duplicates, %d takeovers, %d unknown commits, %d replays, %d purged, %d dead in %s",
		v.Driver, v.Seed, result, s.Events, s.Faults, s.Hits, s.Duplicates, s.Takeovers, s.Unknown, s.Replays, s.Purged, s.Dead, v.Took.Round(time.Second))
}

// A Total sums up several runs. The zero value is ready to use.
type Total struct {
	verdicts []*Verdict
}

// Add adds a run.
func (t *Total) Add(v *Verdict) { t.verdicts = append(t.verdicts, v) }

// Broken counts the violations of all runs.
func (t *Total) Broken() (n int) {
	for _, v := range t.verdicts {
		n += len(v.Violations)
	}
	return n
}

// Markdown writes the totals as tables: what was done, what broke, what was kept.
func (t *Total) Markdown() string {
	var b strings.Builder
	var sum Summary
	faults, excuses, broken := make(map[string]FaultCount), make(map[string]int), make(map[Rule]int)
	var takeovers, handovers Quantiles
	for _, v := range t.verdicts {
		s := v.Summary
		sum.Events += s.Events
		sum.Deliveries += s.Deliveries
		sum.Duplicates += s.Duplicates
		sum.Unknown += s.Unknown
		sum.Fail += s.Fail
		sum.Replays += s.Replays
		sum.Purged += s.Purged
		sum.Dead += s.Dead
		sum.Takeovers += s.Takeovers
		sum.Faults += s.Faults
		sum.Hits += s.Hits
		for _, f := range v.Faults {
			c := faults[f.Kind]
			faults[f.Kind] = FaultCount{f.Kind, c.Count + f.Count, c.Hits + f.Hits}
		}
		for why, n := range v.Excuses {
			excuses[why] += n
		}
		for _, r := range v.Rules {
			broken[r.Rule] += r.Broken
		}
		takeovers, handovers = worse(takeovers, v.Takeovers), worse(handovers, v.Handovers)
	}
	fmt.Fprintf(&b, "%d runs, seeds %s: %d events, %d deliveries, %d faults (%d met something to break), %d duplicates, %d takeovers, "+
		"%d unknown and %d failed transactions, %d replays, %d purged, %d dead.\n\n",
		len(t.verdicts), t.seeds(), sum.Events, sum.Deliveries, sum.Faults, sum.Hits, sum.Duplicates, sum.Takeovers,
		sum.Unknown, sum.Fail, sum.Replays, sum.Purged, sum.Dead)
	b.WriteString("| rule | promise | broken |\n|---|---|---|\n")
	for _, r := range Rules {
		fmt.Fprintf(&b, "| %s | %s | %d |\n", r.ID, r.Rule, broken[r.Rule])
	}
	b.WriteString("\n| fault | count | hit |\n|---|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(faults)) {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", kind, faults[kind].Count, faults[kind].Hits)
	}
	b.WriteString("\n| duplicates because of | count |\n|---|---|\n")
	for _, why := range slices.Sorted(maps.Keys(excuses)) {
		fmt.Fprintf(&b, "| %s | %d |\n", why, excuses[why])
	}
	fmt.Fprintf(&b, "\nThe worst run: takeover after kill -9 p99 %s, handover after SIGTERM p99 %s.\n",
		takeovers.P99.Round(time.Millisecond), handovers.P99.Round(time.Millisecond))
	return b.String()
}

func worse(a, b Quantiles) Quantiles {
	if b.P99 > a.P99 {
		return b
	}
	return a
}

// seeds names the seeds: the first and the last, when they count up.
func (t *Total) seeds() string {
	switch n := len(t.verdicts); n {
	case 0:
		return "none"
	case 1:
		return fmt.Sprint(t.verdicts[0].Seed)
	default:
		return fmt.Sprintf("%d to %d", t.verdicts[0].Seed, t.verdicts[n-1].Seed)
	}
}
