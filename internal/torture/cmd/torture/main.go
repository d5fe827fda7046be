// Command torture breaks producers, relays and their database on purpose and judges
// from independent records whether every promise was kept.
//
//	torture --seconds 100 --runs 50 --db postgres --report DIR
//	torture check DIR      judges a saved history again, and writes its report anew
//	torture total DIR      sums up the reports of a directory as Markdown
//
// One seed repeats the plan of a run, not every interleaving. Built with the tag
// failpoint it also ends and stops relays at chosen places of the engine.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/go-outbox/outbox/internal/failpoint"
	"github.com/go-outbox/outbox/internal/torture"
)

func main() {
	torture.Child() // every producer and relay is this program
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type settings struct {
	seconds int
	seed    uint64
	runs    int
	db      string
	report  string
	calm    bool
	keep    bool
	think   time.Duration
	only    string
	relays  string
}

func run(args []string) error {
	if len(args) == 2 && args[0] == "check" {
		return check(args[1])
	}
	if len(args) == 2 && args[0] == "total" {
		return total(args[1])
	}
	var s settings
	flags := flag.NewFlagSet("torture", flag.ContinueOnError)
	flags.IntVar(&s.seconds, "seconds", 60, "how long each run is tormented")
	flags.Uint64Var(&s.seed, "seed", 0, "the plan of the first run; 0 is a new one. Later runs count up from it")
	flags.IntVar(&s.runs, "runs", 1, "how many runs")
	flags.StringVar(&s.db, "db", "postgres", "postgres, mysql or sqlite")
	flags.StringVar(&s.report, "report", "", "directory for reports")
	flags.BoolVar(&s.calm, "calm", false, "break nothing: then nothing may be delivered twice")
	flags.BoolVar(&s.keep, "keep", false, "keep the history of good runs too")
	flags.DurationVar(&s.think, "think", 0, "the producers' longest wait between two transactions")
	flags.StringVar(&s.relays, "relays", "", "engine: the one in this program; shipped: cmd/outbox; empty: as the seed decides")
	flags.StringVar(&s.only, "only", "", "only faults whose kind contains this")
	if err := flags.Parse(args); err != nil {
		return err
	}
	driver := torture.Driver(s.db)
	if driver != torture.Postgres && driver != torture.MySQL && driver != torture.SQLite {
		return fmt.Errorf("--db: want postgres, mysql or sqlite, got %q", s.db)
	}
	switch relays := torture.Relays(s.relays); {
	case relays != "" && relays != torture.Engine && relays != torture.Shipped:
		return fmt.Errorf("--relays: want engine or shipped, got %q", s.relays)
	case relays == torture.Shipped && driver != torture.Postgres:
		return fmt.Errorf("--relays: shipped needs --db postgres")
	}
	if s.seed == 0 {
		s.seed = rand.Uint64() >> 1
	}
	return s.all(driver)
}

// all makes the runs, one after the other, and sums them up.
func (s *settings) all(driver torture.Driver) error {
	fmt.Printf("failpoints: %t\n", failpoint.Enabled)
	var total torture.Total
	for i := range s.runs {
		o := torture.Options{
			Driver: driver, Seed: s.seed + uint64(i), Torment: time.Duration(s.seconds) * time.Second, Calm: s.calm, Think: s.think, Only: s.only,
			Relays: torture.Relays(s.relays),
		}
		v, err := s.one(o)
		if err != nil {
			return err
		}
		total.Add(v)
		fmt.Println(torture.Line(v))
	}
	if s.report != "" {
		path := filepath.Join(s.report, "summary.md")
		if err := os.WriteFile(path, []byte(total.Markdown()), 0o644); err != nil {
			return fmt.Errorf("write summary: %w", err)
		}
	}
	fmt.Println(total.Markdown())
	if total.Broken() > 0 {
		return fmt.Errorf("%d violations", total.Broken())
	}
	return nil
}

// one makes one run, and keeps its report if it is asked to or something is wrong.
func (s *settings) one(o torture.Options) (*torture.Verdict, error) {
	dir := s.report
	if dir != "" {
		dir = filepath.Join(dir, fmt.Sprintf("%s-%d", o.Driver, o.Seed))
	}
	var v *torture.Verdict
	err := stage(os.Stdout, func(t *scene) {
		h := torture.Torture(t, o)
		v = torture.Judge(h)
		for _, violation := range v.Violations {
			t.Log(violation)
		}
		if dir == "" && !v.OK() {
			dir = filepath.Join(os.TempDir(), fmt.Sprintf("torture-%s-%d", o.Driver, o.Seed))
		}
		if dir == "" {
			return
		}
		if err := torture.Save(dir, h, v, s.keep || !v.OK()); err != nil {
			t.Fatal(err)
		}
		t.Logf("the report is in %s", dir)
	})
	if err != nil {
		return nil, fmt.Errorf("seed %d: %w", o.Seed, err)
	}
	return v, nil
}

// total sums up saved reports.
func total(dir string) error {
	var t torture.Total
	if err := t.AddReports(dir); err != nil {
		return err
	}
	fmt.Print(t.Markdown())
	return nil
}

// check judges a saved history and writes its report anew.
func check(dir string) error {
	h, err := torture.Load(dir)
	if err != nil {
		return err
	}
	v := torture.Judge(h)
	if err := torture.Save(dir, h, v, false); err != nil {
		return err
	}
	for _, violation := range v.Violations {
		fmt.Println(violation)
	}
	fmt.Println(torture.Line(v))
	if !v.OK() {
		return fmt.Errorf("%d violations", len(v.Violations))
	}
	return nil
}
