package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Print what waits in each table and who relays it",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.status(cmd) },
	}
}

func (a *app) status(cmd *cobra.Command) error {
	cfg, err := a.loadTables(cmd)
	if err != nil {
		return err
	}
	db, stores, err := checked(cmd.Context(), cfg, cfg.Relay.Tables)
	if err != nil {
		return err
	}
	defer db.close()

	all, err := readStats(cmd.Context(), stores)
	if err != nil {
		return err
	}
	if a.json {
		for _, s := range all {
			if err := a.printJSON(statusLine(s)); err != nil {
				return err
			}
		}
		return nil
	}
	return a.printStatus(all)
}

func readStats(ctx context.Context, stores []store) ([]outbox.Stats, error) {
	all := make([]outbox.Stats, len(stores))
	for i, s := range stores {
		stats, err := s.Stats(ctx)
		if err != nil {
			return nil, fmt.Errorf("status of %s: %w", s.Table(), err)
		}
		all[i] = stats
	}
	return all, nil
}

// tableStatus is one line of status --json. Its names are fixed.
type tableStatus struct {
	Table            string        `json:"table"`
	Pending          int           `json:"pending"`
	Scheduled        int           `json:"scheduled"`
	InFlight         int           `json:"in_flight"`
	Retrying         int           `json:"retrying"`
	Dead             int           `json:"dead"`
	Discarded        int           `json:"discarded"`
	Capped           bool          `json:"capped"` // counts mean "at least"
	OldestPendingAge float64       `json:"oldest_pending_age_seconds"`
	Leases           []leaseStatus `json:"leases"`
}

type leaseStatus struct {
	Shard     int    `json:"shard"`
	Held      bool   `json:"held"`
	Instance  string `json:"instance"`
	Epoch     int64  `json:"epoch"`
	ExpiresAt string `json:"expires_at,omitempty"`
	Draining  bool   `json:"draining"`
}

func statusLine(s outbox.Stats) tableStatus {
	line := tableStatus{
		Table: s.Table, Pending: s.Pending, Scheduled: s.Scheduled, InFlight: s.InFlight, Retrying: s.Retrying,
		Dead: s.Dead, Discarded: s.Discarded, Capped: s.Capped,
		OldestPendingAge: s.OldestPending.Seconds(),
		Leases:           make([]leaseStatus, len(s.Leases)),
	}
	for i, l := range s.Leases {
		line.Leases[i] = leaseStatus{l.Shard, l.Held, l.Instance, l.Epoch, timestamp(l.ExpiresAt), l.Draining}
	}
	return line
}

func (a *app) printStatus(all []outbox.Stats) error {
	c := newColumns(a.out, "TABLE", "PENDING", "IN FLIGHT", "RETRYING", "SCHEDULED", "DEAD", "OLDEST", "RELAYED BY")
	for _, s := range all {
		count := func(n int) string {
			if s.Capped && n >= outbox.CountCap {
				return strconv.Itoa(n) + "+"
			}
			return strconv.Itoa(n)
		}
		c.row(s.Table, count(s.Pending), count(s.InFlight), count(s.Retrying), count(s.Scheduled), count(s.Dead),
			age(s.OldestPending), holders(s.Leases))
	}
	return c.flush()
}

func age(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(time.Second).String()
}

func holders(leases []outbox.LeaseState) string {
	held, last := 0, ""
	for _, l := range leases {
		if l.Held {
			held++
			last = l.Instance
		}
	}
	switch {
	case held == 0:
		return "nobody"
	case len(leases) == 1:
		return last
	}
	return fmt.Sprintf("%d of %d shards held", held, len(leases))
}
