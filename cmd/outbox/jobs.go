package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/ops"
)

func (a *app) jobsCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List bulk changes and how far they are; resume, pause or cancel one",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > outbox.MaxPage {
				return usagef("--limit: must be from 1 to %d, got %d", outbox.MaxPage, limit)
			}
			return a.jobs(cmd, limit)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, fmt.Sprintf("how many to list, at most %d", outbox.MaxPage))
	cmd.AddCommand(
		a.jobCommand("resume", "Go on with a job that is paused, or whose process is gone, until it is done", a.jobResume),
		a.jobCommand("pause", "Stop a job for now, whichever process drives it", a.jobSet(outbox.JobPaused)),
		a.jobCommand("cancel", "End a job; what it has changed stays", a.jobSet(outbox.JobCancelled)),
	)
	return cmd
}

func (a *app) jobCommand(name, short string, do func(context.Context, store, outbox.Job, author) error) *cobra.Command {
	var who author
	cmd := &cobra.Command{
		Use: name + " JOB --reason TEXT", Short: short,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[0])
			if err != nil {
				return usagef("%q is not a job: want a UUID such as `outbox jobs` prints", printable(ellipsis(args[0], 60)))
			}
			if err := who.complete(a, cmd); err != nil {
				return err
			}
			s, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer s.close()
			st, job, err := findJob(cmd.Context(), s.stores, id)
			if err != nil {
				return err
			}
			return do(cmd.Context(), st, job, who)
		},
	}
	who.flags(cmd)
	return cmd
}

func (a *app) jobSet(state outbox.JobState) func(context.Context, store, outbox.Job, author) error {
	return func(ctx context.Context, s store, job outbox.Job, who author) error {
		job, err := ops.SetJob(ctx, s, job.ID, state, who.actor, who.reason)
		if err != nil {
			return fmt.Errorf("job %s: %w", job.ID, err)
		}
		return a.printJob(s.Table(), job)
	}
}

func (a *app) jobResume(ctx context.Context, s store, job outbox.Job, who author) error {
	if job.State != outbox.JobRunning {
		resumed, err := ops.SetJob(ctx, s, job.ID, outbox.JobRunning, who.actor, who.reason)
		if err != nil {
			return fmt.Errorf("job %s: %w", job.ID, err)
		}
		job = resumed
	}
	return a.drive(ctx, s, job)
}

func (a *app) jobs(cmd *cobra.Command, limit int) error {
	s, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer s.close()
	c := newColumns(a.out)
	if !a.json {
		c.row("JOB", "TABLE", "VERB", "STATE", "DONE", "OF", "RATE", "STARTED", "ACTOR", "REASON", "FILTER")
	}
	for _, st := range s.stores {
		jobs, err := st.Jobs(cmd.Context(), limit)
		if err != nil {
			return fmt.Errorf("jobs of %s: %w", st.Table(), err)
		}
		for _, j := range jobs {
			if a.json {
				if err := a.printJob(st.Table(), j); err != nil {
					return err
				}
				continue
			}
			c.row(j.ID.String(), st.Table(), string(j.Verb), string(j.State), strconv.Itoa(j.Done), strconv.Itoa(j.Total), orDash(rateText(j.Rate)),
				timestamp(j.CreatedAt), j.Actor, ellipsis(j.Reason, 40), strings.TrimSpace(filterWords(j.Filter)))
		}
	}
	return c.flush()
}

func rateText(rate int) string {
	if rate == 0 {
		return ""
	}
	return strconv.Itoa(rate) + "/s"
}

// jobLine is a job in JSON. Its names are fixed.
type jobLine struct {
	Table     string          `json:"table"`
	ID        uuid.UUID       `json:"job_id"`
	Verb      outbox.Verb     `json:"verb"`
	State     outbox.JobState `json:"state"`
	Total     int             `json:"total"`
	Done      int             `json:"done"`
	Rate      int             `json:"rate,omitempty"`
	Cap       int             `json:"cap,omitempty"`
	Filter    json.RawMessage `json:"filter"`
	Actor     string          `json:"actor"`
	Reason    string          `json:"reason"`
	Driver    string          `json:"driver,omitempty"`
	CreatedAt string          `json:"created_at"`
	UpdatedAt string          `json:"updated_at"`
}

// printJob prints where a job stands.
func (a *app) printJob(table string, j outbox.Job) error {
	if !a.json {
		_, err := fmt.Fprintf(a.out, "%s: %s %d of %d messages of %s (job %s)\n", j.State, past[j.Verb], j.Done, j.Total, table, j.ID)
		return err
	}
	filter, err := json.Marshal(j.Filter)
	if err != nil {
		return err
	}
	return a.printJSON(jobLine{
		table, j.ID, j.Verb, j.State, j.Total, j.Done, j.Rate, j.Cap, filter, j.Actor, j.Reason, j.Driver,
		timestamp(j.CreatedAt), timestamp(j.UpdatedAt),
	})
}

// drive makes the steps of a job until it is done, and shows how far it is. Whatever
// ends it early, the job stays and can be resumed.
func (a *app) drive(ctx context.Context, s store, job outbox.Job) error {
	host, _ := os.Hostname() // an unnamed host is no reason to fail
	driver := fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])
	if !a.json {
		a.warnf("job %s: %d messages; Ctrl-C stops it, `outbox jobs resume` goes on", job.ID, job.Total)
	}
	bar := a.newBar()
	last, err := ops.RunJob(ctx, s, job.ID, driver, bar.show)
	bar.clear()
	if err != nil {
		a.sayHowToResume(ctx, s, job.ID)
		return err
	}
	if err := a.printJob(s.Table(), last); err != nil {
		return err
	}
	if last.State == outbox.JobCancelled {
		return fmt.Errorf("job %s was cancelled after %d of %d messages", last.ID, last.Done, last.Total)
	}
	return nil
}

// sayHowToResume says where a job stands that this process leaves.
func (a *app) sayHowToResume(ctx context.Context, s store, id uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), completeTimeout)
	defer cancel()
	progress := ""
	if job, err := s.Job(ctx, id); err == nil {
		progress = fmt.Sprintf(" after %d of %d messages", job.Done, job.Total)
	}
	a.warnf("the job is left%s, and nothing is lost:\n  go on:      outbox jobs resume %s --table %s --reason …\n  give it up: outbox jobs cancel %s --table %s --reason …",
		progress, id, s.Table(), id, s.Table())
}

// A bar shows the progress of a job on a terminal, and nothing elsewhere.
type bar struct {
	app   *app
	on    bool
	begun time.Time
	first int // what was done before this process began
}

func (a *app) newBar() *bar { return &bar{app: a, on: interactive(a.err) && !a.json, first: -1} }

const barWidth = 30

func (b *bar) show(j outbox.Job) {
	if !b.on {
		return
	}
	if b.first < 0 {
		b.begun, b.first = time.Now(), j.Done
	}
	fmt.Fprint(b.app.err, clearLine+barText(j, b.first, time.Since(b.begun)))
}

func (b *bar) clear() {
	if b.on {
		fmt.Fprint(b.app.err, clearLine)
	}
}

// barText is how far a job is, and how long it will take at the speed so far.
func barText(j outbox.Job, first int, elapsed time.Duration) string {
	share := 1.0
	if j.Total > 0 {
		share = min(float64(j.Done)/float64(j.Total), 1)
	}
	full := int(share * barWidth)
	text := fmt.Sprintf("[%s%s] %d/%d %3.0f%%", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), j.Done, j.Total, share*100)
	if j.State == outbox.JobPaused {
		return text + " paused"
	}
	if speed := float64(j.Done-first) / elapsed.Seconds(); elapsed >= time.Second && speed > 0 {
		left := time.Duration(float64(j.Total-j.Done) / speed * float64(time.Second))
		text += fmt.Sprintf(" %.0f/s, %s left", speed, max(left, 0).Round(time.Second))
	}
	return text
}
