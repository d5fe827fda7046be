package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/go-outbox/outbox"
)

func TestMomentsAreTimesOrDistances(t *testing.T) {
	at := time.Date(2026, 11, 15, 6, 0, 0, 0, time.UTC)
	tests := []struct {
		text       string
		ago, ahead time.Time
	}{
		{"now", at, at},
		{"2h", at.Add(-2 * time.Hour), at.Add(2 * time.Hour)},
		{"7d", at.AddDate(0, 0, -7), at.AddDate(0, 0, 7)},
		{"1w", at.AddDate(0, 0, -7), at.AddDate(0, 0, 7)},
		{"2026-11-01", at.AddDate(0, 0, -14).Add(-6 * time.Hour), at.AddDate(0, 0, -14).Add(-6 * time.Hour)},
		{"2026-11-15T07:00:00+01:00", at, at},
		{"2026-11-15 06:00", at, at},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			var m moment
			if err := m.Set(tt.text); err != nil {
				t.Fatal(err)
			}
			if !m.ago(at).Equal(tt.ago) || !m.ahead(at).Equal(tt.ahead) {
				t.Errorf("got %s and %s", m.ago(at), m.ahead(at))
			}
		})
	}
	for _, text := range []string{"", "yesterday", "-2h", "2", "2 h", "99999d", "2026-13-01"} {
		if err := new(moment).Set(text); err == nil {
			t.Errorf("%q was taken for a time", text)
		}
	}
}

func TestTheScreenIsNeverLeft(t *testing.T) {
	var out bytes.Buffer
	text := strings.Repeat("a line that is longer than the screen is wide\n", 50) + "next: nothing to do\n"
	if err := redraw(&out, text, 20, 10); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\r\n")
	if len(lines) != 10 { // nine, and what clears the rest
		t.Errorf("%d lines on a screen of 10", len(lines)-1)
	}
	for _, line := range lines {
		line = strings.NewReplacer("\x1b[H", "", "\x1b[K", "", "\x1b[J", "").Replace(line)
		if n := len([]rune(line)); n > 20 {
			t.Errorf("%d columns on a screen of 20", n)
		}
	}
	if !strings.HasPrefix(lines[8], "next: nothing to do") {
		t.Errorf("the last line is %q", lines[8])
	}
}

func TestAProgressBarSaysHowFarAndHowLong(t *testing.T) {
	job := outbox.Job{State: outbox.JobRunning, Total: 2000, Done: 1500}
	if got, want := barText(job, 500, 2*time.Second), " 1500/2000  75% 500/s, 1s left"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want …%q", got, want)
	}
	job.State = outbox.JobPaused
	if got := barText(job, 500, 2*time.Second); !strings.HasSuffix(got, "75% paused") {
		t.Errorf("got %q", got)
	}
	if got := barText(outbox.Job{}, 0, 0); !strings.Contains(got, "0/0 100%") {
		t.Errorf("got %q", got)
	}
}

// The advice names the one thing that has to go first.
func TestTheHintIsWhatHasToGoFirst(t *testing.T) {
	relayed := []outbox.LeaseState{{Held: true, Instance: "a"}}
	open := []outbox.RelayState{{Live: true, Note: outbox.RelayNote{Circuits: []outbox.CircuitNote{{Route: "mail"}}}}}
	tests := []struct {
		name  string
		stats outbox.Stats
		want  string
	}{
		{"all is well", outbox.Stats{Leases: relayed, Pending: 3}, allWell},
		{"paused and dead", outbox.Stats{Leases: relayed, Dead: 1, Paused: []outbox.PausedRoute{{}}}, "outbox resume"},
		{"nobody relays", outbox.Stats{Pending: 1, Dead: 1}, "nobody relays"},
		{"nobody need relay", outbox.Stats{}, allWell},
		{"circuit open", outbox.Stats{Leases: relayed, Relays: open, Retrying: 4}, "outbox revive --route mail"},
		{"route paused", outbox.Stats{Leases: relayed, Paused: []outbox.PausedRoute{{Route: "mail"}}}, "outbox resume mail"},
		{"dead", outbox.Stats{Leases: relayed, Dead: 1, Retrying: 1}, "outbox dead groups"},
		{"retrying", outbox.Stats{Leases: relayed, Pending: 1, Retrying: 1}, "--status retrying"},
		{"late", outbox.Stats{Leases: relayed, Pending: 1, OldestPending: time.Hour}, "outbox explain"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := next(tt.stats); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want …%s…", got, tt.want)
			}
		})
	}
}

func TestOpenCircuitsAreThoseOfLiveRelays(t *testing.T) {
	at := time.Date(2026, 11, 15, 6, 0, 0, 0, time.UTC)
	note := func(route string, since time.Time) outbox.RelayNote {
		return outbox.RelayNote{Circuits: []outbox.CircuitNote{{Route: route, Since: since}}}
	}
	got := circuits(outbox.Stats{Relays: []outbox.RelayState{
		{Live: true, Note: note("mail", at)},
		{Live: true, Note: note("mail", at.Add(-time.Hour))},
		{Live: false, Note: note("gone", at)},
	}})
	if len(got) != 1 || got[0].Route != "mail" || !got[0].Since.Equal(at.Add(-time.Hour)) {
		t.Errorf("got %+v", got)
	}
}

func TestClocksThatDisagreeAreFound(t *testing.T) {
	at := time.Date(2026, 11, 15, 6, 0, 0, 0, time.UTC)
	for off, want := range map[time.Duration]string{
		0: levelOK, time.Second: levelOK, -4 * time.Second: levelOK, time.Minute: levelWarning, -time.Minute: levelWarning,
	} {
		if f := skew(at.Add(off), at, at.Add(time.Millisecond)); f.Level != want || want == levelWarning && f.Fix == "" {
			t.Errorf("%s apart: %+v", off, f)
		}
	}
}

// Whatever a doctor complains about comes with what to do.
func TestEveryComplaintHasAFix(t *testing.T) {
	trouble := outbox.Stats{
		Table: "shop_outbox", Pending: 9, Dead: 1, OldestPending: time.Hour, Leases: []outbox.LeaseState{{Shard: 0}, {Shard: 1, Held: true}},
		Relays: []outbox.RelayState{
			{Live: true, Version: "1"}, {Live: true, Version: "2", Note: outbox.RelayNote{Circuits: []outbox.CircuitNote{{Route: "mail"}}}},
		},
	}
	paused := trouble
	paused.Paused = []outbox.PausedRoute{{Route: "mail", By: "ada", Reason: "spam"}}
	for _, s := range []outbox.Stats{trouble, paused} {
		for _, f := range []finding{leases(s), versions(s), stopped(s), deadFound(s), backlog(s)} {
			if f.Level == levelOK || f.Fix == "" || f.Text == "" {
				t.Errorf("got %+v", f)
			}
		}
	}
}

func TestAnExportKeepsPayloadsByteForByte(t *testing.T) {
	for _, payload := range []string{`{"a":1}`, `{ "a" : 1 }`, "\x00\xff not JSON", `"\u003c"`} {
		var e exported
		e.setPayload([]byte(payload))
		e.Topic, e.EventID[0] = "shop.order.placed.v1", 1
		msg, err := e.enqueueable()
		if err != nil || string(msg.Payload) != payload {
			t.Errorf("%q came back as %q (%v)", payload, msg.Payload, err)
		}
	}
}
