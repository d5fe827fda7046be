package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// SchedulerConfig tunes a Scheduler.
type SchedulerConfig struct {
	// Restart is the wait before a task that failed is started again. Defaults
	// to 5 s.
	Restart time.Duration
	Log     *slog.Logger
}

// A Scheduler runs relays and cleaners of many tables and databases under one Start
// and Stop. A task that fails is started again and does not stop the others. Create
// it with NewScheduler; its methods are safe for concurrent use.
type Scheduler struct {
	cfg SchedulerConfig

	mu     sync.Mutex
	tasks  []task
	cancel context.CancelFunc
	done   chan struct{}
	failed map[string]error
}

type task struct {
	name string
	run  func(context.Context) error
}

// ErrSchedulerRunning is returned by Start when the scheduler runs already, and by
// Add after Start.
var ErrSchedulerRunning = errors.New("scheduler is running")

// NewScheduler makes a scheduler without tasks.
func NewScheduler(cfg SchedulerConfig) *Scheduler {
	setDefault(&cfg.Restart, 5*time.Second)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Scheduler{cfg: cfg, failed: make(map[string]error)}
}

// Add registers a task: the Run method of a Relay or Cleaner, or any function like
// them. It must be called before Start.
func (s *Scheduler) Add(name string, run func(context.Context) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return ErrSchedulerRunning
	}
	s.tasks = append(s.tasks, task{name: name, run: run})
	return nil
}

// Start starts every task and returns at once. The tasks end with ctx or Stop.
func (s *Scheduler) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return ErrSchedulerRunning
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.done = make(chan struct{})
	var group sync.WaitGroup
	for _, t := range s.tasks {
		group.Go(func() { s.supervise(ctx, t) })
	}
	done := s.done
	go func() {
		group.Wait()
		close(done)
	}()
	return nil
}

// Stop ends every task in order and waits for them, at most until ctx ends. A
// stopped scheduler may be started again.
func (s *Scheduler) Stop(ctx context.Context) error {
	s.mu.Lock()
	cancel, done := s.cancel, s.done
	s.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("stop: %w", context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == done {
		s.cancel, s.done = nil, nil
	}
	return nil
}

// IsRunning reports whether the scheduler has been started and some task still runs.
func (s *Scheduler) IsRunning() bool {
	s.mu.Lock()
	done := s.done
	s.mu.Unlock()
	if done == nil {
		return false
	}
	select {
	case <-done:
		return false
	default:
		return true
	}
}

// Failed returns the last error of each task that is waiting to be started again.
func (s *Scheduler) Failed() map[string]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := make(map[string]error, len(s.failed))
	for name, err := range s.failed {
		failed[name] = err
	}
	return failed
}

func (s *Scheduler) supervise(ctx context.Context, t task) {
	for {
		err := runTask(ctx, t)
		if ctx.Err() != nil || err == nil {
			return
		}
		s.note(t.name, err)
		s.cfg.Log.LogAttrs(ctx, slog.LevelError, "task failed; will be started again",
			slog.String("task", t.name), slog.Duration("in", s.cfg.Restart), errAttr(err))
		if !pause(ctx, s.cfg.Restart) {
			return
		}
		s.note(t.name, nil)
	}
}

func (s *Scheduler) note(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.failed, name)
		return
	}
	s.failed[name] = err
}

func runTask(ctx context.Context, t task) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v}
		}
	}()
	return t.run(ctx)
}
