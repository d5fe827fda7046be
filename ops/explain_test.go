package ops_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/ops"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// facts are about a message that is about to be picked up.
func facts(change func(*ops.Facts)) ops.Facts {
	f := ops.Facts{
		Record: &outbox.Record{
			Sequence: 10, EventID: uuid.New(), Topic: "shop.order.placed.v1", Key: "k",
			CreatedAt: now.Add(-time.Minute), AvailableAt: now.Add(-time.Minute),
		},
		Stats: outbox.Stats{
			Table: "shop_outbox", Now: now, Leases: []outbox.LeaseState{{Held: true, Instance: "r1"}},
			Relays: []outbox.RelayState{{Instance: "r1", Live: true, SeenAt: now}},
		},
		Routes: func(string) []string { return []string{"main"} },
	}
	change(&f)
	return f
}

func head() *outbox.Record {
	return &outbox.Record{
		Sequence: 9, EventID: uuid.New(), Topic: "shop.order.placed.v1", Key: "k", CreatedAt: now.Add(-time.Hour), AvailableAt: now.Add(-time.Hour),
	}
}

func TestExplanationsNameTheCause(t *testing.T) {
	circuit := func(f *ops.Facts) {
		f.Stats.Relays[0].Note.Circuits = []outbox.CircuitNote{{Route: "main", Since: now.Add(-time.Minute), Error: "connection refused"}}
	}
	pause := func(route string) func(f *ops.Facts) {
		return func(f *ops.Facts) {
			f.Stats.Paused = []outbox.PausedRoute{{Route: route, At: now.Add(-time.Hour), By: "ada", Reason: "maintenance"}}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*ops.Facts)
		want   ops.Cause
		text   string
	}{
		{"nothing is wrong", func(*ops.Facts) {}, ops.Pending, "about to be picked up"},
		{"there is none", func(f *ops.Facts) { f.Record = nil }, ops.NotFound, "shop_outbox"},
		{"published", func(f *ops.Facts) { f.Record.PublishedAt = now.Add(-time.Second); f.Record.Attempts = 3 }, ops.Published, "2026-05-04T11:59:59Z (1s ago), attempt 3"},
		{"dead", func(f *ops.Facts) {
			f.Record.DeadAt, f.Record.DeadReason, f.Record.LastError, f.Record.Attempts = now, outbox.DeadAttempts, "status 500", 5
		}, ops.Dead, "the last of 5 attempts failed: status 500"},
		{"dead without a route", func(f *ops.Facts) { f.Record.DeadAt, f.Record.DeadReason = now, outbox.DeadNoRoute }, ops.NoRoute, "shop.order.placed.v1"},
		{"discarded", func(f *ops.Facts) {
			f.Record.DeadAt, f.Record.DeadReason = now, outbox.DeadDiscarded
			f.Discard = &outbox.AuditEntry{Actor: "ada", Reason: "a duplicate"}
		}, ops.Discarded, "by ada: a duplicate"},
		{"the table is paused", pause(""), ops.Paused, "the table shop_outbox is paused since 2026-05-04T11:00:00Z (1h0m ago) by ada: maintenance"},
		{"its route is paused", pause("main"), ops.Paused, "the route main is paused"},
		{"another route is paused", pause("other"), ops.Pending, ""},
		{"nobody relays", func(f *ops.Facts) {
			f.Stats.Leases[0].Held, f.Stats.Leases[0].ExpiresAt = false, now.Add(-50*time.Hour)
			f.Stats.Relays = nil
		}, ops.NoRelay, "(2d ago)"},
		{"in flight", func(f *ops.Facts) {
			f.Record.InFlight, f.Record.Flight = true, &outbox.Flight{Instance: "r1", Since: now.Add(-2 * time.Second)}
		}, ops.InFlight, "at relay r1 since 2026-05-04T11:59:58Z (2s ago)"},
		{"in flight at a relay that is gone", func(f *ops.Facts) { f.Record.InFlight, f.Stats.Leases[0].Held = true, false }, ops.NoRelay, "will be recovered"},
		{"scheduled", func(f *ops.Facts) { f.Record.AvailableAt = now.Add(48 * time.Hour) }, ops.Scheduled, "(in 2d)"},
		{"scheduled while its route is down", func(f *ops.Facts) { circuit(f); f.Record.AvailableAt = now.Add(48 * time.Hour) }, ops.Scheduled, ""},
		{"put back by an open circuit", func(f *ops.Facts) { circuit(f); f.Record.AvailableAt = now.Add(time.Second) }, ops.CircuitOpen, "connection refused"},
		{"no route", func(f *ops.Facts) { f.Routes = func(string) []string { return nil } }, ops.NoRoute, ""},
		{"circuit open", circuit, ops.CircuitOpen, "the circuit of the route main is open since 2026-05-04T11:59:00Z (1m0s ago): connection refused"},
		{"circuit open at a relay that is gone", func(f *ops.Facts) { circuit(f); f.Stats.Relays[0].Live = false }, ops.Pending, ""},
		{"circuit open of a route that has it", func(f *ops.Facts) { circuit(f); f.Record.RoutesDone = []string{"main"} }, ops.Pending, ""},
		{"circuit open of the last route", func(f *ops.Facts) { circuit(f); f.Routes, f.LastRoute = nil, "main" }, ops.CircuitOpen, ""},
		{"circuit open of what may be its route", func(f *ops.Facts) { circuit(f); f.Routes = nil }, ops.CircuitOpen, "if that is its route"},
		{"backoff", func(f *ops.Facts) {
			f.Record.Attempts, f.Record.AvailableAt, f.Record.LastError = 2, now.Add(30*time.Second), "timeout"
		}, ops.Backoff, "until 2026-05-04T12:00:30Z (in 30s) after attempt 2 failed: timeout"},
		{"due after a backoff", func(f *ops.Facts) { f.Record.Attempts = 2 }, ops.Pending, ""},
		{"held by a message in backoff", func(f *ops.Facts) {
			f.Ahead = head()
			f.Ahead.Attempts, f.Ahead.AvailableAt, f.Ahead.LastError = 1, now.Add(time.Minute), "timeout"
		}, ops.Held, `behind sequence 9 of its key "k": it is in backoff`},
		{"held by a dead message while its route is down", func(f *ops.Facts) {
			circuit(f)
			f.Ahead = head()
			f.Ahead.DeadAt, f.Ahead.DeadReason = now, outbox.DeadPermanent
		}, ops.Held, "it is dead"},
		{"behind a message that waits for its route too", func(f *ops.Facts) {
			circuit(f)
			f.Ahead = head()
			f.Ahead.AvailableAt = now.Add(time.Second)
		}, ops.CircuitOpen, ""},
		{"behind a dead message of another route", func(f *ops.Facts) {
			f.Ahead = head()
			f.Ahead.Topic, f.Ahead.DeadAt = "shop.order.paid.v1", now
			f.Routes = func(topic string) []string { return []string{topic} }
		}, ops.Pending, ""},
		{"behind a dead message of another route where messages go to several", func(f *ops.Facts) {
			f.Ahead = head()
			f.Ahead.Topic, f.Ahead.DeadAt = "shop.order.paid.v1", now
			f.Routes, f.FanOut = func(topic string) []string { return []string{topic} }, true
		}, ops.Held, ""},
		{"a shard that nobody relays", func(f *ops.Facts) {
			f.Stats.Leases = append(f.Stats.Leases, outbox.LeaseState{Shard: 1})
		}, ops.Pending, "a shard that nobody relays: 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ops.Explain(facts(c.change))
			if got.Cause != c.want || !strings.Contains(got.Text, c.text) {
				t.Errorf("got %s: %s\nwant %s: … %s", got.Cause, got.Text, c.want, c.text)
			}
		})
	}
}
