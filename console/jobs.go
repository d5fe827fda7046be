package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/ops"
)

// maxDriven is how many jobs one console drives at once.
const maxDriven = 4

// drivers are the jobs that this process drives, each in a goroutine that close ends
// and waits for.
type drivers struct {
	slots chan struct{}
	group sync.WaitGroup

	mu     sync.Mutex
	closed bool
	stop   map[uuid.UUID]context.CancelFunc
}

func newDrivers() *drivers {
	return &drivers{slots: make(chan struct{}, maxDriven), stop: make(map[uuid.UUID]context.CancelFunc)}
}

// A slot is the right to drive one job.
type slot struct{ d *drivers }

func (d *drivers) reserve() (*slot, error) {
	select {
	case d.slots <- struct{}{}:
		return &slot{d}, nil
	default:
		return nil, refused(http.StatusServiceUnavailable, "jobs", "Too many jobs run already: wait for one to end.")
	}
}

func (s *slot) release() { <-s.d.slots }

// drive goes on with a job until it is done or cancelled, or until the console is
// closed; a paused one keeps its slot. The request that started it does not matter to it.
func (s *slot) drive(v *view, operator outbox.Operator, id uuid.UUID) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(v.ctx()))
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.d.closed || s.d.stop[id] != nil {
		cancel()
		s.release()
		return
	}
	s.d.stop[id] = cancel
	c, table := v.c, v.Source.Name
	s.d.group.Go(func() {
		defer s.d.forget(id)
		defer cancel()
		job, err := ops.RunJob(ctx, operator, id, c.id, nil)
		c.samples.forget(table)
		level := slog.LevelInfo
		if err != nil && !errors.Is(err, context.Canceled) {
			level = slog.LevelError
		}
		c.cfg.Log.LogAttrs(ctx, level, "job ended here", slog.String("id", id.String()), slog.String("table", table),
			slog.String("state", string(job.State)), slog.Int("count", job.Done), slog.Any("err", err))
	})
}

func (d *drivers) driving(id uuid.UUID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stop[id] != nil
}

func (d *drivers) forget(id uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.stop, id)
	<-d.slots
}

func (d *drivers) close() {
	d.mu.Lock()
	d.closed = true
	for _, cancel := range d.stop {
		cancel()
	}
	d.mu.Unlock()
	d.group.Wait()
}

// A jobView is a bulk change and how far it is.
type jobView struct {
	outbox.Job
	Link    string
	Percent int
	// Orphan: it should be running, but nobody has driven it for a while.
	Orphan bool
	Left   time.Duration
	Took   time.Duration
}

// Open reports whether the job can still change anything.
func (j jobView) Open() bool { return j.State == outbox.JobRunning || j.State == outbox.JobPaused }

func (v *view) newJobView(j outbox.Job) jobView {
	one := jobView{Job: j, Link: v.Link("/jobs/" + j.ID.String())}
	if j.Total > 0 {
		one.Percent = min(100, j.Done*100/j.Total)
	}
	if j.State == outbox.JobDone {
		one.Percent = 100
	}
	one.Orphan = j.State == outbox.JobRunning && v.Now.Sub(j.UpdatedAt) > 2*outbox.JobPatience
	one.Took = j.UpdatedAt.Sub(j.CreatedAt)
	if j.State == outbox.JobRunning && j.Rate > 0 {
		one.Left = time.Duration(max(0, j.Total-j.Done)) * time.Second / time.Duration(j.Rate)
	}
	return one
}

// A jobPage is the page of one job: its progress, and its record for good.
type jobPage struct {
	*view
	Job    jobView
	Filter []header
	Audit  []auditView
	Done   string
}

func (c *Console) job(v *view) error {
	v.Screen = "replay"
	job, err := v.findJob()
	if err != nil {
		return err
	}
	if look := c.samples.look(v.ctx(), v.Source.Name); look.err == nil {
		v.Now = look.now()
	}
	data := &jobPage{view: v, Job: v.newJobView(job), Filter: describeFilter(v, job.Filter), Done: v.param("done")}
	entries, err := v.Source.Inspector.Audit(v.ctx(), outbox.AuditFilter{EventID: job.ID})
	if err != nil {
		return err
	}
	for _, e := range entries {
		data.Audit = append(data.Audit, newAuditView(e, v.Source.Name))
	}
	return v.render(http.StatusOK, "job", data)
}

// findJob returns the job in the path if it is within the person's tenants.
func (v *view) findJob() (outbox.Job, error) {
	id, err := v.readID()
	if err != nil {
		return outbox.Job{}, err
	}
	job, err := v.Source.Inspector.Job(v.ctx(), id)
	if v.Who.scoped() && (errors.Is(err, outbox.ErrNotFound) || err == nil && (job.Filter.TenantID == "" || !v.Who.sees(job.Filter.TenantID))) {
		return outbox.Job{}, errForeign
	}
	return job, err
}

func describeFilter(v *view, f outbox.Filter) []header {
	var list []header
	add := func(name, value string) {
		if value != "" {
			list = append(list, header{v.T(name), value})
		}
	}
	add("Status", string(f.Status))
	add("Topic", f.Topic)
	add("Key", f.Key)
	add("Tenant", f.TenantID)
	add("Reason", f.Reason)
	add("Error", f.Error)
	add("Route", f.Route)
	if !f.Since.IsZero() {
		add("Since", v.Time(f.Since))
	}
	if !f.Until.IsZero() {
		add("Until", v.Time(f.Until))
	}
	return list
}

// jobStates are what a person can make of a job.
var jobStates = map[string]outbox.JobState{
	"pause": outbox.JobPaused, "resume": outbox.JobRunning, "cancel": outbox.JobCancelled,
}

func (c *Console) changeJob(v *view) error {
	state, ok := jobStates[v.r.PathValue("state")]
	if !ok {
		return refused(http.StatusNotFound, "path", "There is no such page.")
	}
	job, err := v.setJob(state, v.param("reason"))
	if err != nil {
		return err
	}
	v.redirect(v.Link("/jobs/" + job.ID.String()))
	return nil
}

// setJob changes the state of the job in the path. A job that goes on is driven here.
func (v *view) setJob(state outbox.JobState, reason string) (outbox.Job, error) {
	operator, err := v.operator()
	if err != nil {
		return outbox.Job{}, err
	}
	job, err := v.findJob()
	if err != nil {
		return outbox.Job{}, err
	}
	if reason == "" {
		reason = "asked for in the console"
	}
	var place *slot
	if state == outbox.JobRunning && !v.c.jobs.driving(job.ID) {
		if place, err = v.c.jobs.reserve(); err != nil {
			return outbox.Job{}, err
		}
	}
	// A job whose driver is gone is running already: taking over is no change.
	if job.State != state {
		job, err = ops.SetJob(v.ctx(), operator, job.ID, state, v.actor(), reason)
		if err != nil {
			if place != nil {
				place.release()
			}
			return outbox.Job{}, err
		}
		v.audited(outbox.Verb(string(state)+"_job"), job.Done, reason)
	}
	if place != nil {
		place.drive(v, operator, job.ID)
	}
	return job, nil
}

// onceBook remembers which request started which job, so that sending a form twice
// starts one.
type onceBook struct {
	mu   sync.Mutex
	jobs map[string]outbox.Job
	keys []string // in order, the oldest first
}

const maxOnce = 1000

func newOnceBook() *onceBook { return &onceBook{jobs: make(map[string]outbox.Job)} }

// do runs start unless key has done so already. Starts exclude each other: they are
// rare, and the count they begin with should not move between them.
func (b *onceBook) do(key string, keyed bool, start func() (outbox.Job, error)) (outbox.Job, error) {
	if !keyed {
		return start()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if job, ok := b.jobs[key]; ok {
		return job, nil
	}
	job, err := start()
	if err != nil {
		return job, err
	}
	if len(b.keys) >= maxOnce {
		delete(b.jobs, b.keys[0])
		b.keys = b.keys[1:]
	}
	b.jobs[key] = job
	b.keys = append(b.keys, key)
	return job, nil
}
