package torture

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A Verdict is a run as the checker sees it: what was done, what happened, and whether
// every promise was kept.
type Verdict struct {
	Seed    uint64
	Driver  Driver
	Calm    bool `json:",omitempty"`
	Took    time.Duration
	Limits  Limits
	Summary Summary
	Faults  []FaultCount
	// Excuses counts the duplicates by what explains them.
	Excuses map[string]int
	// Takeovers are the times from a kill of a lease holder to the next owner,
	// Handovers those from SIGTERM to the next owner, where no other fault came
	// between.
	Takeovers, Handovers Waits
	Rules                []RuleResult
	Violations           []Violation
}

// A FaultCount counts the faults of one kind, and those that met something to break.
type FaultCount struct {
	Kind        string
	Count, Hits int
}

// A RuleResult is how often a rule was broken.
type RuleResult struct {
	ID     string
	Rule   Rule
	Broken int
}

// Waits are some durations and how many of them kept within a bound. They are shown and
// break no rule: a machine that is starved is late with everything.
type Waits struct {
	Times         []time.Duration `json:",omitempty"` // sorted
	P50, P99, Max time.Duration
	Bound         time.Duration
	Within        int
}

func waits(list []time.Duration, bound time.Duration) Waits {
	w := Waits{Times: list, Bound: bound, Within: within(list, bound)}
	if n := len(list); n > 0 {
		slices.Sort(list)
		at := func(q float64) time.Duration { return list[min(n-1, int(q*float64(n)))] }
		w.P50, w.P99, w.Max = at(0.5), at(0.99), list[n-1]
	}
	return w
}

// Judge checks a history.
func Judge(h *History) *Verdict {
	c := check(h)
	v := &Verdict{
		Seed: h.Seed, Driver: h.Driver, Calm: h.Calm, Limits: h.Limits, Took: h.length(), Summary: c.summary(), Violations: c.found, Excuses: c.excuses,
	}
	v.countFaults(h)
	broken := make(map[Rule]int)
	for _, violation := range v.Violations {
		broken[violation.Rule]++
	}
	for _, r := range Rules {
		v.Rules = append(v.Rules, RuleResult{r.ID, r.Rule, broken[r.Rule]})
	}
	slices.SortStableFunc(v.Rules, func(a, b RuleResult) int { return min(b.Broken, 1) - min(a.Broken, 1) }) // what is broken first
	return v
}

func (v *Verdict) countFaults(h *History) {
	counts := make(map[string]*FaultCount)
	for _, f := range h.Faults {
		if counts[f.Kind] == nil {
			counts[f.Kind] = &FaultCount{Kind: f.Kind}
		}
		counts[f.Kind].Count++
		if f.Hit {
			counts[f.Kind].Hits++
		}
	}
	for _, c := range counts {
		v.Faults = append(v.Faults, *c)
	}
	slices.SortFunc(v.Faults, func(a, b FaultCount) int { return bytes.Compare([]byte(a.Kind), []byte(b.Kind)) })
	v.Takeovers, v.Handovers = waits(h.takeovers(), h.Limits.takeoverBound()), waits(h.handovers(), handoverBound)
}

// OK reports whether every promise was kept.
func (v *Verdict) OK() bool { return len(v.Violations) == 0 }

// length is from the beginning of a run to its last delivery.
func (h *History) length() time.Duration {
	end := h.Began + 1
	if n := len(h.Deliveries); n > 0 {
		end = max(end, h.Deliveries[n-1].At)
	}
	for _, f := range h.Faults {
		end = max(end, f.To)
	}
	return time.Duration(end - h.Began)
}

// Save writes a report into dir: report.json, report.html and, if asked for,
// history.json.gz, from which the checker can judge the run again.
func Save(dir string, h *History, v *Verdict, withHistory bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save report: %w", err)
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "report.json"), text, 0o644)
	}
	if err == nil {
		err = writeFile(filepath.Join(dir, "report.html"), func(w io.Writer) error { return WriteHTML(w, h, v) })
	}
	if err == nil && withHistory {
		err = writeFile(filepath.Join(dir, bundle), h.write)
	}
	if err != nil {
		return fmt.Errorf("save report: %w", err)
	}
	return nil
}

// bundle is the file of a report that holds the whole history.
const bundle = "history.json.gz"

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func (h *History) write(w io.Writer) error {
	z := gzip.NewWriter(w)
	if err := json.NewEncoder(z).Encode(h); err != nil {
		return err
	}
	return z.Close()
}

// Load reads the history of a saved report.
func Load(dir string) (*History, error) {
	f, err := os.Open(filepath.Join(dir, bundle))
	if err != nil {
		return nil, fmt.Errorf("load history: %w", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("load history: %w", err)
	}
	var h History
	if err := json.NewDecoder(z).Decode(&h); err != nil {
		return nil, fmt.Errorf("load history: %w", err)
	}
	return &h, nil
}

//go:embed report.html.tmpl
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"ms": func(d time.Duration) string { return d.Round(time.Millisecond).String() },
}).Parse(page))

// WriteHTML writes the report as one page that needs nothing else.
func WriteHTML(w io.Writer, h *History, v *Verdict) error {
	return pageTemplate.Execute(w, struct {
		*Verdict
		Picture Picture
		Drain   Drain
		Pending int
	}{v, Draw(h), h.Drain, h.pending()})
}

// Of are the violations of a rule.
func (v *Verdict) Of(rule Rule) (list []Violation) {
	for _, violation := range v.Violations {
		if violation.Rule == rule {
			list = append(list, violation)
		}
	}
	return list
}

// pending counts what nobody settled.
func (h *History) pending() (n int) {
	for _, r := range h.Final.Rows {
		if !r.Published && !r.Dead {
			n++
		}
	}
	return n
}
