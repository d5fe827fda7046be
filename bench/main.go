// Command bench measures the outbox against its peers and against what PostgreSQL
// can do at all, in one run on one machine: only the ratios within a run mean
// something.
//
// It starts a PostgreSQL of its own with durable settings, runs every workload on
// every system, repetition by repetition so that all of them meet the same noise,
// and reports medians. It does not measure networks, other servers or other payload
// sizes, and the client shares the machine with the server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if was, err := childMain(); was {
		exit(err)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func exit(err error) {
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// options are the command line.
type options struct {
	repetitions int
	only        []string
	systems     []string
	quick       bool
	smoke       bool
	json        bool
	bars        bool
	markdown    bool
	svg         string
	from        string
	profile     string
	list        bool
}

// quickSystems keep a quick run under two minutes.
var quickSystems = []string{"outbox", "limit", "unclaimed", "river", "business_only", "copy"}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var only, systems string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.repetitions, "repetitions", 3, "how often each cell is measured")
	f.StringVar(&only, "only", "", "comma-separated workloads; see --list")
	f.StringVar(&systems, "systems", "", "comma-separated systems; see --list")
	f.BoolVar(&o.quick, "quick", false, "the main workloads, smaller, with "+strings.Join(quickSystems[:4], ", ")+": under two minutes")
	f.BoolVar(&o.smoke, "smoke", false, "with a few hundred messages, to see that everything runs; the figures mean nothing")
	f.BoolVar(&o.json, "json", false, "print JSON lines instead of a table")
	f.BoolVar(&o.bars, "bars", false, "print what the project promises and whether it was reached, instead of a table")
	f.BoolVar(&o.markdown, "markdown", false, "print tables for a document")
	f.StringVar(&o.svg, "svg", "", "also write a chart to this `file`")
	f.StringVar(&o.from, "from", "", "measure nothing and report the JSON lines of this `file`")
	f.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of each of our drains to this `file`, then file.2, file.3 …")
	f.BoolVar(&o.list, "list", false, "list workloads and systems and exit")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.only, o.systems = split(only), split(systems)
	if o.quick && len(o.systems) == 0 {
		o.systems = quickSystems
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.repetitions < 1:
		return o, errors.New("--repetitions must be at least 1")
	case o.json && o.bars:
		return o, errors.New("--json and --bars exclude each other")
	}
	return o, known(o)
}

func split(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" })
}

// known refuses names that would silently select nothing.
func known(o options) error {
	workloads, systems := names(groups())
	for _, name := range o.only {
		if !slices.Contains(workloads, name) {
			return fmt.Errorf("no workload %q; see --list", name)
		}
	}
	for _, name := range o.systems {
		if !slices.Contains(systems, name) {
			return fmt.Errorf("no system %q; see --list", name)
		}
	}
	return nil
}

func names(groups []group) (workloads, systems []string) {
	for _, g := range groups {
		for _, c := range g.cells {
			workloads = append(workloads, c.workloads...)
			systems = append(systems, c.system.name)
		}
	}
	return distinct(workloads), distinct(systems)
}

// distinct keeps the first of each.
func distinct(names []string) []string {
	var kept []string
	for _, n := range names {
		if !slices.Contains(kept, n) {
			kept = append(kept, n)
		}
	}
	return kept
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if o.list {
		workloads, systems := names(groups())
		_, err := fmt.Fprintf(stdout, "workloads: %s\nsystems: %s\n", strings.Join(workloads, " "), strings.Join(systems, " "))
		return err
	}
	if o.from != "" {
		list, err := readResults(o.from)
		if err != nil {
			return err
		}
		return report(list, o, stdout, io.Discard)
	}
	profile.file = o.profile
	return measure(ctx, o, stdout, stderr)
}

// measure runs what was asked for on a server of its own, and reports.
func measure(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	start := time.Now()
	s, err := startServer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	b := &bench{
		server: s, sizes: full, repetitions: o.repetitions, only: o.only, systems: o.systems,
		progress: stderr, results: newResults(),
	}
	switch {
	case o.smoke:
		b.sizes = smoke
	case o.quick:
		b.sizes = quick
	}
	all := slices.DeleteFunc(groups(), func(g group) bool { return o.quick && len(o.only) == 0 && !g.quick })
	version, err := s.version(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "PostgreSQL %s (%s), %s, %d CPUs, %d repetitions\n",
		version, strings.Join(settings[:3], ", "), runtime.Version(), runtime.NumCPU(), o.repetitions)

	measured := b.run(ctx, all) // what was measured before a failure is still worth printing
	b.writeSettings(stderr, all)
	if err := report(b.results.list(), o, stdout, stderr); err != nil {
		return errors.Join(measured, err)
	}
	fmt.Fprintf(stderr, "finished after %s\n", time.Since(start).Round(time.Second))
	return measured
}

// report prints results. JSON lines leave standard output to programs, so the bars go
// to standard error then.
func report(list []result, o options, stdout, stderr io.Writer) error {
	list = withBounds(list)
	if o.svg != "" {
		if err := chart(o.svg, list); err != nil {
			return err
		}
	}
	switch {
	case o.json:
		if err := writeJSON(stdout, list); err != nil || o.smoke {
			return err
		}
		return writeBars(stderr, list, false, false)
	case o.bars:
		return writeBars(stdout, list, true, o.markdown)
	}
	if err := writeTable(stdout, list, o.markdown); err != nil || o.smoke {
		return err
	}
	fmt.Fprintln(stdout)
	return writeBars(stdout, list, false, o.markdown)
}

func chart(file string, list []result) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(writeSVG(f, list), f.Close())
}
