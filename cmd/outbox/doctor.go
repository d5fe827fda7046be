package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
)

// The levels of a finding.
const (
	levelOK      = "ok"
	levelWarning = "warning"
	levelError   = "error"
)

func (a *app) doctorCommand() *cobra.Command {
	var sinks bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what is wrong with the database, the tables and their relays, and say how to mend it",
		Long: "Look for what is wrong with the schema, the indexes, the settings of the database, the privileges of this role, the\n" +
			"clocks and the relays, and say how to mend each. It changes nothing. It exits 1 when it finds an error, 3\n" +
			"when the schema is not right; warnings exit 0.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.loadTables(cmd)
			if err != nil {
				return err
			}
			return a.doctor(cmd.Context(), cfg, sinks)
		},
	}
	cmd.Flags().BoolVar(&sinks, "sinks", false, "also ask every destination whether it answers")
	addSettings(cmd.Flags(), func(s config.Setting) bool {
		return s.Key == "sink" || strings.HasPrefix(s.Key, "webhook.")
	})
	return cmd
}

func (a *app) doctor(ctx context.Context, cfg *config.Config, sinks bool) error {
	db, stores, err := openTables(ctx, cfg, cfg.Relay.Tables, false)
	if err != nil {
		return err
	}
	defer db.close()
	r := report{app: a}
	if !a.json {
		r.columns = newColumns(a.out)
	}
	for _, s := range stores {
		if err := r.examine(ctx, s); err != nil {
			return err
		}
	}
	if sinks {
		r.table = ""
		for _, f := range probeSinks(ctx, cfg) {
			r.add(f)
		}
	}
	return r.finish()
}

// A diagnoser is a store that knows what can be wrong with its database. It calls
// report for everything it looks at; level is ok, warning or error.
type diagnoser interface {
	Diagnose(ctx context.Context, report func(name, level, text, fix string)) error
}

// A report prints findings as they come.
type report struct {
	app     *app
	columns columns
	table   string
	errs    []error // of printing
	schema  error
	bad     []string
	warned  int
}

// findingLine is a finding in JSON. Its names are fixed.
type findingLine struct {
	Table string `json:"table,omitempty"`
	Name  string `json:"name"`
	Level string `json:"level"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

func (r *report) add(f finding) {
	switch f.Level {
	case levelError:
		r.bad = append(r.bad, f.Name)
	case levelWarning:
		r.warned++
	}
	if r.app.json {
		r.errs = append(r.errs, r.app.printJSON(findingLine{r.table, f.Name, f.Level, f.Text, f.Fix}))
		return
	}
	r.columns.row(f.Level, orDash(r.table), f.Name, f.Text)
	if f.Fix != "" && f.Level != levelOK {
		r.columns.row("", "", "", "fix: "+f.Fix)
	}
}

// finish prints the verdict.
func (r *report) finish() error {
	if !r.app.json {
		r.errs = append(r.errs, r.columns.flush())
	}
	if err := errors.Join(r.errs...); err != nil {
		return err
	}
	switch {
	case r.schema != nil:
		return r.schema
	case len(r.bad) > 0:
		slices.Sort(r.bad)
		return fmt.Errorf("found %s and %s: %s", counted(len(r.bad), "error"), counted(r.warned, "warning"), strings.Join(slices.Compact(r.bad), ", "))
	case r.warned > 0:
		r.app.warnf("found no error and %s", counted(r.warned, "warning"))
	default:
		r.app.warnf("found nothing wrong")
	}
	return nil
}

// examine looks at one table: first at what every store has, then at what this one
// knows about its database.
func (r *report) examine(ctx context.Context, s store) error {
	r.table = s.Table()
	if err := s.CheckSchema(ctx); err != nil {
		return r.unreadable(s, err)
	}
	r.add(finding{Name: "schema", Level: levelOK, Text: "has this program's version"})
	asked := time.Now()
	stats, err := s.Stats(ctx)
	if err != nil { // a side table is missing: the version does not tell
		return r.unreadable(s, fmt.Errorf("status of %s: %w", s.Table(), err))
	}
	for _, f := range []finding{
		skew(stats.Now, asked, time.Now()), leases(stats), versions(stats), stopped(stats), deadFound(stats), backlog(stats),
	} {
		r.add(f)
	}
	d, ok := s.(diagnoser)
	if !ok {
		return nil
	}
	return d.Diagnose(ctx, func(name, level, text, fix string) { r.add(finding{name, level, text, fix}) })
}

// unreadable is what err says about the schema, and otherwise err. Nothing else can be
// read then.
func (r *report) unreadable(s store, err error) error {
	if !errors.Is(err, outbox.ErrSchema) && !wrongVersion(err) {
		return err
	}
	r.schema = err
	fix := "outbox migrate up --table " + s.Table() + "; if that has nothing to do, compare the tables with what outbox migrate print says"
	r.add(finding{"schema", levelError, outbox.SanitizeText(err.Error(), nil, 0), fix})
	return nil
}

// maxSkew is how far the clock of this host may be from the database's. Leases and
// due times are the database's alone, so this only confuses people and logs.
const maxSkew = 5 * time.Second

// skew compares the database's clock with this host's, which was read before and
// after.
func skew(clock, before, after time.Time) finding {
	f := finding{Name: "clock", Level: levelOK, Text: "this host and the database agree"}
	off := time.Duration(0)
	switch {
	case clock.Before(before):
		off = before.Sub(clock)
	case clock.After(after):
		off = clock.Sub(after)
	}
	if off > maxSkew {
		f.Level = levelWarning
		f.Text = fmt.Sprintf("the clocks of this host and of the database are %s apart", off.Round(time.Second))
		f.Fix = "synchronise both with NTP; times in logs and in the tables cannot be compared until then"
	}
	return f
}

func leases(s outbox.Stats) finding {
	f := finding{Name: "leases", Level: levelOK, Text: "every shard is relayed"}
	free := 0
	for _, l := range s.Leases {
		if !l.Held {
			free++
		}
	}
	switch {
	case free == 0:
		return f
	case free == len(s.Leases) && s.Pending > 0:
		f.Level = levelError
		f.Text = fmt.Sprintf("nobody relays the table, and %s messages wait", count(s, s.Pending))
	case free == len(s.Leases):
		f.Level, f.Text = levelWarning, "nobody relays the table"
	default:
		f.Level, f.Text = levelError, fmt.Sprintf("nobody relays %d of %d shards", free, len(s.Leases))
	}
	f.Fix = "start a relay: outbox relay --table " + s.Table
	return f
}

// versions looks for relays of different versions, as during an upgrade that was not
// finished.
func versions(s outbox.Stats) finding {
	var found []string
	for _, r := range s.Relays {
		if r.Live && !slices.Contains(found, r.Version) {
			found = append(found, r.Version)
		}
	}
	if len(found) < 2 {
		return finding{Name: "relays", Level: levelOK, Text: "live relays have one version"}
	}
	slices.Sort(found)
	return finding{
		"relays", levelWarning, "live relays have different versions: " + strings.Join(found, ", "), "finish the upgrade of all relays",
	}
}

func stopped(s outbox.Stats) finding {
	open := circuits(s)
	switch {
	case len(s.Paused) > 0:
		p := s.Paused[0]
		return finding{
			"routes", levelWarning, fmt.Sprintf("%s is paused since %s by %s: %s", what(p.Route), timestamp(p.At), p.By, p.Reason),
			strings.TrimSpace(fmt.Sprintf("outbox resume %s", p.Route)) + " --table " + s.Table + " --reason …, when that is over",
		}
	case len(open) > 0:
		return finding{
			"routes", levelWarning, fmt.Sprintf("the circuit of route %s is open since %s: %s", open[0].Route, timestamp(open[0].Since), open[0].Error),
			"mend the destination; the relay tries again by itself",
		}
	}
	return finding{Name: "routes", Level: levelOK, Text: "none is paused, no circuit is open"}
}

func deadFound(s outbox.Stats) finding {
	if s.Dead == 0 {
		return finding{Name: "dead", Level: levelOK, Text: "no message is dead"}
	}
	return finding{"dead", levelWarning, count(s, s.Dead) + " messages are dead", "outbox dead groups --table " + s.Table}
}

func backlog(s outbox.Stats) finding {
	if s.OldestPending <= late {
		return finding{Name: "backlog", Level: levelOK, Text: "no message that is due waits longer than " + late.String()}
	}
	return finding{
		"backlog", levelWarning, fmt.Sprintf("the oldest of %s messages waits %s", count(s, s.Pending), age(s.OldestPending)),
		fmt.Sprintf("outbox list --status pending --oldest-first --limit 1 --table %s, then outbox explain EVENT", s.Table),
	}
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
