package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

// A verdict is what a check says about one table. Its names are fixed.
type verdict struct {
	Check string  `json:"check"`
	Table string  `json:"table"`
	OK    bool    `json:"ok"`
	Value float64 `json:"value"`
	Max   float64 `json:"max"`
	Text  string  `json:"text"`
}

func (a *app) checkCommand() *cobra.Command {
	return group("check", "Compare a table with a limit, for monitors: exits 4 when it is exceeded",
		a.checkCountCommand("backlog", "At most so many messages wait", 1000, func(s outbox.Stats) (int, string) { return s.Pending, "pending" }),
		a.checkCountCommand("dead", "At most so many messages are dead", 0, func(s outbox.Stats) (int, string) { return s.Dead, "dead" }),
		a.checkAgeCommand(), a.checkLeaderCommand(),
	)
}

func (a *app) checkCountCommand(name, short string, limit int, of func(outbox.Stats) (int, string)) *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use: name + " --max N", Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most < 0 || most >= outbox.CountCap {
				return usagef("--max: must be from 0 to %d: nothing is counted further", outbox.CountCap-1)
			}
			return a.check(cmd, func(s outbox.Stats) verdict {
				n, what := of(s)
				return verdict{
					Check: name, OK: n <= most, Value: float64(n), Max: float64(most),
					Text: fmt.Sprintf("%s %s, at most %d", count(s, n), what, most),
				}
			})
		},
	}
	cmd.Flags().IntVar(&most, "max", limit, "the limit")
	return cmd
}

func (a *app) checkAgeCommand() *cobra.Command {
	var most time.Duration
	cmd := &cobra.Command{
		Use: "age --max DURATION", Short: "No message that is due waits longer", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most <= 0 {
				return usagef("--max: must be positive, got %s", most)
			}
			return a.check(cmd, func(s outbox.Stats) verdict {
				return verdict{
					Check: "age", OK: s.OldestPending <= most, Value: s.OldestPending.Seconds(), Max: most.Seconds(),
					Text: fmt.Sprintf("the oldest waits %s, at most %s", s.OldestPending.Round(time.Millisecond), most),
				}
			})
		},
	}
	cmd.Flags().DurationVar(&most, "max", time.Minute, "the limit")
	return cmd
}

func (a *app) checkLeaderCommand() *cobra.Command {
	return &cobra.Command{
		Use: "leader", Short: "Somebody relays every shard", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.check(cmd, func(s outbox.Stats) verdict {
				var free []string
				for _, l := range s.Leases {
					if !l.Held {
						free = append(free, strconv.Itoa(l.Shard))
					}
				}
				v := verdict{Check: "leader", OK: len(free) == 0, Value: float64(len(free)), Text: "every shard is relayed"}
				if !v.OK {
					v.Text = "nobody relays shard " + strings.Join(free, ", ")
				}
				return v
			})
		},
	}
}

// check judges every table. All are printed, whatever is wrong with the first.
func (a *app) check(cmd *cobra.Command, judge func(outbox.Stats) verdict) error {
	s, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer s.close()
	all, err := readStats(cmd.Context(), s.stores)
	if err != nil {
		return err
	}
	var exceeded []error
	for _, stats := range all {
		v := judge(stats)
		v.Table = stats.Table
		if !v.OK {
			exceeded = append(exceeded, &thresholdError{fmt.Sprintf("%s: %s", v.Table, v.Text)})
		}
		if err := a.printVerdict(v); err != nil {
			return err
		}
	}
	return errors.Join(exceeded...)
}

func (a *app) printVerdict(v verdict) error {
	if a.json {
		return a.printJSON(v)
	}
	word := "ok"
	if !v.OK {
		word = "exceeded"
	}
	_, err := fmt.Fprintf(a.out, "%s %s: %s: %s\n", v.Check, word, v.Table, v.Text)
	return err
}
