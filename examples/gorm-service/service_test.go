package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
	"github.com/go-outbox/outbox/internal/testenv"
)

// A bus is an EventPublisher that remembers what it was given and fails where it is told.
type bus struct {
	mu        sync.Mutex
	published []string // topic and data
	refuse    map[string]error
}

func (b *bus) Publish(_ context.Context, topic string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for part, err := range b.refuse {
		if strings.Contains(string(data), part) {
			return err
		}
	}
	b.published = append(b.published, topic+" "+string(data))
	return nil
}

// answer makes the bus fail for data that holds part, or no longer.
func (b *bus) answer(part string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse[part] = err; err == nil {
		delete(b.refuse, part)
	}
}

func (b *bus) has(want string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.published) > 0 && b.published[len(b.published)-1] == want
}

func (b *bus) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.published)
}

func TestTheServiceOnSQLite(t *testing.T) { testService(t, "") }

func TestTheServiceOnMariaDB(t *testing.T) {
	testService(t, testenv.MySQL(t).DSN("parseTime=true", "loc=Local"))
}

func testService(t *testing.T, dsn string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bus := &bus{refuse: map[string]error{}}
	svc := open(ctx, t, dsn, bus)
	ok(t, svc.Start(ctx))
	if !svc.IsRunning() {
		t.Error("a service that was started does not run")
	}

	// Published, to the topic of the aggregate type; a transaction that fails leaves nothing.
	ok(t, svc.CreateArchive(ctx, "acme", "A-1", "Fire"))
	until(ctx, t, "A-1 is published", func() bool { return bus.has(`archive-events {"code":"A-1","title":"Fire"}`) })
	if err := svc.CreateArchive(ctx, "acme", "A-1", "Again"); err == nil {
		t.Error("an archive was created twice")
	}

	// Given up: the tenant's operator finds it, and sends it again.
	bus.answer("G-1", outbox.Permanent(errors.New("no such customer")))
	ok(t, svc.CreateArchive(ctx, "globex", "G-1", "Flood"))
	var failed []*outbox.Record
	until(ctx, t, "G-1 is given up", func() bool {
		var err error
		failed, err = svc.Failed(ctx, "globex", 10)
		ok(t, err)
		return len(failed) == 1
	})
	expectWord(ctx, t, svc, failed[0].EventID, "MAX_RETRY")
	if others, err := svc.Failed(ctx, "acme", 10); err != nil || len(others) != 0 {
		t.Errorf("the other tenant has %d failed events (%v)", len(others), err)
	}
	bus.answer("G-1", nil)
	ok(t, svc.Retry(ctx, failed[0].EventID, "ops", "the customer was added"))
	until(ctx, t, "G-1 is published", func() bool { return bus.has(`archive-events {"code":"G-1","title":"Flood"}`) })
	until(ctx, t, "G-1 is settled", func() bool { return word(ctx, t, svc, failed[0].EventID) == "PUBLISHED" })

	// Tried again: it waits, and counts as unpublished.
	bus.answer("I-1", errors.New("busy"))
	ok(t, svc.CreateArchive(ctx, "initech", "I-1", "Theft"))
	until(ctx, t, "I-1 waits for its retry", func() bool {
		waiting, err := svc.ForRetry(ctx, "initech", 10)
		ok(t, err)
		return len(waiting) == 1 && waiting[0].LastError == "busy"
	})
	expectCount(ctx, t, svc, "initech", 1)

	// Stopped: events are kept, not published.
	ok(t, svc.Stop(ctx))
	if svc.IsRunning() {
		t.Error("a service that was stopped runs")
	}
	before := bus.count()
	ok(t, svc.CreateArchive(ctx, "acme", "A-2", "Storm"))
	waiting, err := svc.Unpublished(ctx, "acme", 10)
	ok(t, err)
	if len(waiting) != 1 || waiting[0].AggregateID != "A-2" || bus.count() != before {
		t.Errorf("%d events of the tenant wait, and %d were published after the stop", len(waiting), bus.count()-before)
	}
	expectCount(ctx, t, svc, "acme", 1)
	expectWord(ctx, t, svc, waiting[0].EventID, "CREATED")
	expectCount(ctx, t, svc, "globex", 0)
}

func TestTheConfigurationOfASchedulerAndPublisherIsUsed(t *testing.T) {
	cfg := loadConfig(t)
	got := cfg.RelayConfig(table)
	policy := outbox.RetryPolicy{MaxAttempts: 6, Base: 2 * time.Second, Max: 30 * time.Minute}
	if got.Poll != 3*time.Second || got.Batch != 100 || got.Retries.Default != policy {
		t.Errorf("got %+v", got)
	}
	if len(cfg.Notes) != 3 {
		t.Errorf("notes %q, want one for each interval that nothing needs", cfg.Notes)
	}
}

func TestAnAggregateTypeWithoutATopicIsAnErrorAndNoEvent(t *testing.T) {
	topics, err := newTopics()
	ok(t, err)
	if _, err := topics.Topic("Incident"); !errors.Is(err, outbox.ErrUnmappedTopic) {
		t.Errorf("got %v", err)
	}
	if got := topics.GetTopic("Media"); got != "media-events" {
		t.Errorf("got %q", got)
	}
}

func TestCountingATenantGoesOverAllPages(t *testing.T) {
	svc := open(t.Context(), t, "", &bus{})
	for i := range outbox.MaxPage + 5 {
		ok(t, svc.CreateArchive(t.Context(), "acme", fmt.Sprint(i), "x"))
	}
	ok(t, svc.CreateArchive(t.Context(), "globex", "1", "x"))
	expectCount(t.Context(), t, svc, "acme", outbox.MaxPage+5)
	expectCount(t.Context(), t, svc, "globex", 1)
}

func open(ctx context.Context, t *testing.T, dsn string, publisher EventPublisher) *Service {
	t.Helper()
	db, err := openDatabase(ctx, dsn, filepath.Join(t.TempDir(), "archive.db"))
	ok(t, err)
	t.Cleanup(func() { ok(t, db.Close()) })
	svc, err := newService(db, loadConfig(t), publisher, slog.New(slog.DiscardHandler))
	ok(t, err)
	return svc
}

func loadConfig(t *testing.T) *config.Config {
	t.Helper()
	cfg, err := config.Load(config.Sources{File: "outbox.yaml"})
	ok(t, err)
	return cfg
}

func expectCount(ctx context.Context, t *testing.T, svc *Service, tenant string, want int) {
	t.Helper()
	n, err := svc.CountUnpublished(ctx, tenant)
	ok(t, err)
	if n != want {
		t.Errorf("%s has %d unpublished events, want %d", tenant, n, want)
	}
}

func expectWord(ctx context.Context, t *testing.T, svc *Service, id uuid.UUID, want string) {
	t.Helper()
	if got := word(ctx, t, svc, id); got != want {
		t.Errorf("the event is %s, want %s", got, want)
	}
}

func word(ctx context.Context, t *testing.T, svc *Service, id uuid.UUID) string {
	t.Helper()
	record, word, err := svc.Find(ctx, id)
	ok(t, err)
	if len(record.Payload) == 0 {
		t.Error("the event has no payload")
	}
	return word
}

// until waits for something that the service does in the background.
func until(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		case <-tick.C:
		}
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
