package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-outbox/outbox"
)

// HealthConfig says what readiness means. The zero value checks that every watched table
// answers and has the right schema.
type HealthConfig struct {
	// Instance is the relay's Config.Instance: its lease loop is alive while the
	// tables have heard of it within Beat. Empty leaves that out. Beat defaults to
	// one minute, four leases.
	Instance string
	Beat     time.Duration
	// Backlog is how many messages may wait before readiness carries a warning. It
	// stays ready: a backlog is no reason to take a relay away. Defaults to 1000.
	Backlog int
	// Checks are further conditions of readiness, such as a scheduler that runs. The
	// text of their errors is not shown, their names are. Do not check destinations:
	// messages wait for those without harm.
	Checks []Check
}

// A Check is a named condition. An error means that it does not hold.
type Check struct {
	Name  string
	Check func(context.Context) error
}

// A Status of a process or of a table.
type Status string

// The statuses, best first. StatusWarning counts as ready.
const (
	StatusOK      Status = "ok"
	StatusWarning Status = "warning"
	StatusUnready Status = "unready"
)

// A Report is the body of /readyz.
type Report struct {
	Status Status        `json:"status"`
	Checks []CheckReport `json:"checks,omitempty"`
	Tables []TableReport `json:"tables"`
}

// A TableReport is the readiness of one table.
type TableReport struct {
	Table   string   `json:"table"`
	Status  Status   `json:"status"`
	Reasons []Reason `json:"reasons,omitempty"`
	Pending int      `json:"pending"`
	Capped  bool     `json:"capped,omitempty"` // there are at least so many
	Dead    int      `json:"dead"`
	Oldest  float64  `json:"oldest_pending_age_seconds"`
}

// A CheckReport is the result of one Check.
type CheckReport struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
}

// A Reason has a stable code and a sentence. It never quotes an error: drivers put
// addresses and users into theirs, and the admin listener has no authentication.
type Reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// freshEnough is how old a look at a table may be for a health report, so that probes
// cannot load the database.
const freshEnough = time.Second

// Report judges the readiness of the process.
func (m *Metrics) Report(ctx context.Context, cfg HealthConfig) Report {
	if cfg.Backlog <= 0 {
		cfg.Backlog = 1000
	}
	if cfg.Beat <= 0 {
		cfg.Beat = time.Minute
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.cfg.Timeout, errSampleTimeout)
	defer cancel()
	r := Report{Status: StatusOK, Tables: []TableReport{}}
	for _, c := range cfg.Checks {
		status := StatusOK
		if c.Check(ctx) != nil {
			status = StatusUnready
		}
		r.Checks = append(r.Checks, CheckReport{Name: c.Name, Status: status})
		r.Status = worse(r.Status, status)
	}
	for _, s := range m.sampler.refresh(ctx, freshEnough) {
		t := s.report(cfg)
		r.Tables = append(r.Tables, t)
		r.Status = worse(r.Status, t.Status)
	}
	return r
}

func (s sample) report(cfg HealthConfig) TableReport {
	t := TableReport{Table: s.table, Status: StatusOK}
	if !s.good.IsZero() {
		t.Pending, t.Capped, t.Dead, t.Oldest = s.stats.Pending, s.stats.Capped, s.stats.Dead, s.stats.OldestPending.Seconds()
	}
	switch {
	case s.err != nil:
		t.add(StatusUnready, unreachable(s.err))
	case s.good.IsZero():
		t.add(StatusUnready, Reason{"not_seen", "the table has not been looked at yet"})
	default:
		s.judge(&t, cfg)
	}
	return t
}

func (s sample) judge(t *TableReport, cfg HealthConfig) {
	if cfg.Instance != "" && !s.heard(cfg.Instance, cfg.Beat) {
		t.add(StatusUnready, Reason{"lease_loop", fmt.Sprintf("this relay has not reported to the table for %s", cfg.Beat)})
	}
	if s.stats.Pending > cfg.Backlog {
		t.add(StatusWarning, Reason{"backlog", fmt.Sprintf("%d messages wait, more than %d", s.stats.Pending, cfg.Backlog)})
	}
}

// heard compares two times of the database, so that no clock of ours matters.
func (s sample) heard(instance string, within time.Duration) bool {
	for _, r := range s.stats.Relays {
		if r.Instance == instance {
			return s.stats.Now.Sub(r.SeenAt) <= within
		}
	}
	return false
}

func unreachable(err error) Reason {
	switch {
	case errors.Is(err, outbox.ErrSchema):
		return Reason{"schema", "the schema is missing, too old or too new; the log names the command that mends it"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errSampleTimeout):
		return Reason{"timeout", "the database did not answer in time"}
	default:
		return Reason{"unreachable", "the database cannot be read; the log says why"}
	}
}

func (t *TableReport) add(status Status, r Reason) {
	t.Status = worse(t.Status, status)
	t.Reasons = append(t.Reasons, r)
}

func worse(a, b Status) Status {
	for _, s := range []Status{StatusUnready, StatusWarning} {
		if a == s || b == s {
			return s
		}
	}
	return StatusOK
}

// Ready serves the Report: 200 while the process can work, also with warnings, and 503
// otherwise.
func (m *Metrics) Ready(cfg HealthConfig) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		report := m.Report(r.Context(), cfg)
		code := http.StatusOK
		if report.Status == StatusUnready {
			code = http.StatusServiceUnavailable
		}
		writeJSON(w, code, report)
	})
}

// Live answers 200 as long as the process can answer at all. It asks no database: a
// restart does not mend one.
func Live() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]Status{"status": StatusOK})
	})
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client is gone; nobody to tell
}
