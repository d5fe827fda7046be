package torture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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

// AddReports adds the runs whose reports lie in a directory, one directory each.
func (t *Total) AddReports(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "report.json"))
	if err != nil {
		return fmt.Errorf("find reports: %w", err)
	}
	if len(paths) == 0 {
		return fmt.Errorf("find reports: no */report.json in %s; name the directory that --report had", dir)
	}
	for _, path := range paths {
		var v Verdict
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &v)
		}
		if err != nil {
			return fmt.Errorf("read report %s: %w", path, err)
		}
		t.Add(&v)
	}
	return nil
}

// Broken counts the violations of all runs.
func (t *Total) Broken() (n int) {
	for _, v := range t.verdicts {
		n += len(v.Violations)
	}
	return n
}

// Markdown writes the totals as tables: what was done, how long shards waited, what was
// kept, what broke what, and why something came twice.
func (t *Total) Markdown() string {
	var b strings.Builder
	groups := t.groups()
	runs(&b, groups)
	waited(&b, groups)
	count(&b, "rule", groups, ruleNames(), func(v *Verdict, add func(string, int, int)) {
		for _, r := range v.Rules {
			add(r.ID+" "+string(r.Rule), r.Broken, 0)
		}
	})
	count(&b, "fault (hit)", groups, nil, func(v *Verdict, add func(string, int, int)) {
		for _, f := range v.Faults {
			add(f.Kind, f.Count, f.Hits)
		}
	})
	count(&b, "duplicates because of", groups, nil, func(v *Verdict, add func(string, int, int)) {
		for why, n := range v.Excuses {
			add(cmp.Or(why, "nothing"), n, 0)
		}
	})
	return b.String()
}

// A group is the runs of a kind.
type group struct {
	name     string
	verdicts []*Verdict
}

// groups sorts the runs by database, those that nothing disturbed apart.
func (t *Total) groups() []group {
	byName := make(map[string][]*Verdict)
	for _, v := range t.verdicts {
		name := string(v.Driver)
		if v.Calm {
			name += ", calm"
		}
		byName[name] = append(byName[name], v)
	}
	var list []group
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, group{name, byName[name]})
	}
	return list
}

// sum adds up a figure of every run.
func (g group) sum(figure func(*Verdict) int) (n int) {
	for _, v := range g.verdicts {
		n += figure(v)
	}
	return n
}

// seeds names the seeds: how many, the first and the last.
func (g group) seeds() string {
	seeds := make([]uint64, 0, len(g.verdicts))
	for _, v := range g.verdicts {
		seeds = append(seeds, v.Seed)
	}
	slices.Sort(seeds)
	seeds = slices.Compact(seeds)
	if n := len(seeds); n > 1 {
		return fmt.Sprintf("%d: %d to %d", n, seeds[0], seeds[n-1])
	}
	return fmt.Sprint(seeds[0])
}

func runs(b *strings.Builder, groups []group) {
	b.WriteString("| runs | seeds | events | deliveries | faults (hit) | duplicates | unknown commits | rolled back | replays | purged | dead | broken |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, g := range groups {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s (%s) |", g.name, g.seeds(),
			thousands(g.sum(func(v *Verdict) int { return v.Summary.Events })),
			thousands(g.sum(func(v *Verdict) int { return v.Summary.Deliveries })),
			thousands(g.sum(func(v *Verdict) int { return v.Summary.Faults })),
			thousands(g.sum(func(v *Verdict) int { return v.Summary.Hits })))
		for _, figure := range []func(*Verdict) int{
			func(v *Verdict) int { return v.Summary.Duplicates },
			func(v *Verdict) int { return v.Summary.Unknown },
			func(v *Verdict) int { return v.Summary.Fail },
			func(v *Verdict) int { return v.Summary.Replays },
			func(v *Verdict) int { return v.Summary.Purged },
			func(v *Verdict) int { return v.Summary.Dead },
			func(v *Verdict) int { return len(v.Violations) },
		} {
			fmt.Fprintf(b, " %s |", thousands(g.sum(figure)))
		}
		b.WriteString("\n")
	}
}

// waited shows how long shards waited in all runs together. Each run has its own bound.
func waited(b *strings.Builder, groups []group) {
	b.WriteString("\n| a shard waited | count | p50 | p99 | longest | bound | within it |\n|---|---|---|---|---|---|---|\n")
	for _, g := range groups {
		waitedFor(b, g.name+", from kill -9 to the next owner", "lease + 2 polls", g, func(v *Verdict) Waits { return v.Takeovers })
		waitedFor(b, g.name+", from SIGTERM to the next owner", handoverBound.String(), g, func(v *Verdict) Waits { return v.Handovers })
	}
}

func waitedFor(b *strings.Builder, name, bound string, g group, figure func(*Verdict) Waits) {
	var times []time.Duration
	kept := 0
	for _, v := range g.verdicts {
		w := figure(v)
		times, kept = append(times, w.Times...), kept+w.Within
	}
	if len(times) == 0 {
		return
	}
	w := waits(times, 0)
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	fmt.Fprintf(b, "| %s | %d | %s | %s | %s | %s | %d |\n", name, len(times), ms(w.P50), ms(w.P99), ms(w.Max), bound, kept)
}

// count writes a table with a row for each name and a column for each group. Names are
// all that occur, unless they are given.
func count(b *strings.Builder, title string, groups []group, names []string, each func(v *Verdict, add func(name string, n, hits int))) {
	type figure struct{ n, hits int }
	figures := make(map[string]map[string]figure) // by name and group
	for _, g := range groups {
		for _, v := range g.verdicts {
			each(v, func(name string, n, hits int) {
				if figures[name] == nil {
					figures[name] = make(map[string]figure)
				}
				f := figures[name][g.name]
				figures[name][g.name] = figure{f.n + n, f.hits + hits}
			})
		}
	}
	if names == nil {
		names = slices.Sorted(maps.Keys(figures))
	}
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| %s |", title)
	for _, g := range groups {
		fmt.Fprintf(b, " %s |", g.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(groups)) + "\n")
	for _, name := range names {
		fmt.Fprintf(b, "| %s |", name)
		for _, g := range groups {
			f := figures[name][g.name]
			b.WriteString(" " + thousands(f.n))
			if f.hits > 0 {
				fmt.Fprintf(b, " (%s)", thousands(f.hits))
			}
			b.WriteString(" |")
		}
		b.WriteString("\n")
	}
}

func ruleNames() (list []string) {
	for _, r := range Rules {
		list = append(list, r.ID+" "+string(r.Rule))
	}
	return list
}

// thousands writes a number with a comma between each three digits.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
