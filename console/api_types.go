package console

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// The bodies of the API. Their names are those of the command line's --json and are
// fixed.

type apiTable struct {
	Table            string       `json:"table"`
	Reachable        bool         `json:"reachable"`
	Pending          int          `json:"pending"`
	Scheduled        int          `json:"scheduled"`
	InFlight         int          `json:"in_flight"`
	Retrying         int          `json:"retrying"`
	Dead             int          `json:"dead"`
	Discarded        int          `json:"discarded"`
	Capped           bool         `json:"capped"`
	OldestPendingAge float64      `json:"oldest_pending_age_seconds"`
	InRate           float64      `json:"in_per_second"`
	OutRate          float64      `json:"out_per_second"`
	Leases           []apiLease   `json:"leases"`
	Relays           []apiRelay   `json:"relays"`
	Circuits         []apiCircuit `json:"circuits"`
	Paused           []apiPaused  `json:"paused"`
	Problems         []apiProblem `json:"problems"`
}

type apiLease struct {
	Shard     int       `json:"shard"`
	Held      bool      `json:"held"`
	Instance  string    `json:"instance"`
	Epoch     int64     `json:"epoch"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	Draining  bool      `json:"draining"`
}

type apiRelay struct {
	Instance string    `json:"instance"`
	Version  string    `json:"version"`
	SeenAt   time.Time `json:"seen_at"`
	Live     bool      `json:"live"`
	OnDead   string    `json:"on_dead,omitempty"`
}

type apiCircuit struct {
	Route     string    `json:"route"`
	Since     time.Time `json:"since"`
	Error     string    `json:"error,omitempty"`
	Instances []string  `json:"instances"`
}

type apiPaused struct {
	Route  string    `json:"route"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

type apiProblem struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Text     string `json:"text"`
	Detail   string `json:"detail,omitempty"`
}

func newAPITable(name string, look snapshot, r rates) apiTable {
	s := look.stats
	t := apiTable{
		Table: name, Reachable: look.err == nil, Pending: s.Pending, Scheduled: s.Scheduled, InFlight: s.InFlight,
		Retrying: s.Retrying, Dead: s.Dead, Discarded: s.Discarded, Capped: s.Capped,
		OldestPendingAge: s.OldestPending.Seconds(), InRate: r.In, OutRate: r.Out,
		Leases: []apiLease{}, Relays: []apiRelay{}, Circuits: []apiCircuit{}, Paused: []apiPaused{},
	}
	for _, l := range s.Leases {
		t.Leases = append(t.Leases, apiLease{l.Shard, l.Held, l.Instance, l.Epoch, l.ExpiresAt, l.Draining})
	}
	for _, r := range s.Relays {
		t.Relays = append(t.Relays, apiRelay{r.Instance, r.Version, r.SeenAt, r.Live, r.Note.OnDead})
	}
	for _, c := range openCircuits(s) {
		t.Circuits = append(t.Circuits, apiCircuit{c.Route, c.Since, c.Error, c.Instances})
	}
	for _, p := range s.Paused {
		t.Paused = append(t.Paused, apiPaused(p))
	}
	return t
}

type apiMessage struct {
	Table         string            `json:"table"`
	Sequence      int64             `json:"sequence"`
	EventID       uuid.UUID         `json:"event_id"`
	Status        outbox.Status     `json:"status"`
	Topic         string            `json:"topic"`
	Key           string            `json:"key"`
	TenantID      string            `json:"tenant_id"`
	Attempts      int               `json:"attempts"`
	Crashes       int               `json:"crashes"`
	Replays       int               `json:"replays"`
	CreatedAt     time.Time         `json:"created_at"`
	AvailableAt   time.Time         `json:"available_at"`
	PublishedAt   time.Time         `json:"published_at,omitzero"`
	DeadAt        time.Time         `json:"dead_at,omitzero"`
	DeadReason    string            `json:"dead_reason,omitempty"`
	LastError     string            `json:"last_error,omitempty"`
	AggregateType string            `json:"aggregate_type,omitempty"`
	AggregateID   string            `json:"aggregate_id,omitempty"`
	EventType     string            `json:"event_type,omitempty"`
	EventVersion  int               `json:"event_version,omitempty"`
	ContentType   string            `json:"content_type,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	TraceParent   string            `json:"traceparent,omitempty"`
	TraceState    string            `json:"tracestate,omitempty"`
	Payload       json.RawMessage   `json:"payload,omitempty"`
	PayloadBase64 []byte            `json:"payload_base64,omitempty"`
}

func newAPIMessage(table string, r *outbox.Record, now time.Time) apiMessage {
	return apiMessage{
		Table: table, Sequence: r.Sequence, EventID: r.EventID, Status: r.Status(now), Topic: r.Topic, Key: r.Key,
		TenantID: r.TenantID, Attempts: r.Attempts, Crashes: r.Crashes, Replays: r.Replays,
		CreatedAt: r.CreatedAt, AvailableAt: r.AvailableAt, PublishedAt: r.PublishedAt,
		DeadAt: r.DeadAt, DeadReason: r.DeadReason, LastError: r.LastError,
		AggregateType: r.AggregateType, AggregateID: r.AggregateID, EventType: r.EventType, EventVersion: r.EventVersion,
		ContentType: r.ContentType, Headers: r.Headers, TraceParent: r.TraceParent, TraceState: r.TraceState,
	}
}

// setPayload adds the payload as JSON where it is, and in base64 otherwise.
func (m *apiMessage) setPayload(body []byte) {
	if json.Valid(body) && utf8.Valid(body) {
		m.Payload = body
		return
	}
	m.PayloadBase64 = body
}

type apiAttempt struct {
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
	Route   string    `json:"route,omitempty"`
	Outcome string    `json:"outcome"`
	Error   string    `json:"error,omitempty"`
	Took    float64   `json:"took_seconds"`
}

type apiExplanation struct {
	Cause  string `json:"cause"`
	Text   string `json:"text"`
	Fix    string `json:"fix,omitempty"`
	Behind string `json:"behind,omitempty"`
}

type apiGroup struct {
	Topic  string    `json:"topic"`
	Route  string    `json:"route,omitempty"`
	Reason string    `json:"reason"`
	Error  string    `json:"error,omitempty"`
	Count  int       `json:"count"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
	Sample uuid.UUID `json:"sample"`
}

type apiKey struct {
	Key     string     `json:"key"`
	Waiting int        `json:"waiting"`
	Head    apiMessage `json:"head"`
}

type apiEntry struct {
	ID       int64           `json:"id"`
	At       time.Time       `json:"at"`
	Table    string          `json:"table"`
	Actor    string          `json:"actor"`
	Verb     outbox.Verb     `json:"verb"`
	Reason   string          `json:"reason"`
	EventID  uuid.UUID       `json:"event_id,omitzero"`
	Sequence int64           `json:"sequence,omitempty"`
	Route    string          `json:"route,omitempty"`
	Key      string          `json:"key,omitempty"`
	Filter   json.RawMessage `json:"filter,omitempty"`
	Messages int             `json:"messages"`
	Before   outbox.Status   `json:"before,omitempty"`
	After    outbox.Status   `json:"after,omitempty"`
}

func newAPIEntry(e outbox.AuditEntry) apiEntry {
	entry := apiEntry{
		ID: e.ID, At: e.At, Table: e.Table, Actor: e.Actor, Verb: e.Verb, Reason: e.Reason, EventID: e.EventID,
		Sequence: e.Sequence, Route: e.Route, Key: e.Key, Messages: e.Messages, Before: e.Before, After: e.After,
	}
	if json.Valid([]byte(e.Filter)) {
		entry.Filter = json.RawMessage(e.Filter)
	}
	return entry
}

type apiEffect struct {
	Messages int           `json:"messages"`
	Before   outbox.Status `json:"before,omitempty"`
	After    outbox.Status `json:"after,omitempty"`
	Preview  bool          `json:"preview"`
}

type apiFilter struct {
	Topic    string    `json:"topic,omitempty"`
	Key      string    `json:"key,omitempty"`
	TenantID string    `json:"tenant_id,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Error    string    `json:"error,omitempty"`
	Route    string    `json:"route,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`
}

type apiPreview struct {
	Count        int        `json:"count"`
	Capped       bool       `json:"capped"`
	Topics       []apiCount `json:"topics"`
	KeyConflicts int        `json:"key_conflicts"`
	Takes        float64    `json:"takes_seconds"`
}

type apiCount struct {
	Topic string `json:"topic"`
	Count int    `json:"count"`
}

type apiJob struct {
	ID        uuid.UUID       `json:"id"`
	Table     string          `json:"table"`
	Verb      outbox.Verb     `json:"verb"`
	Filter    apiFilter       `json:"filter"`
	State     outbox.JobState `json:"state"`
	Total     int             `json:"total"`
	Done      int             `json:"done"`
	Expect    int             `json:"expect"`
	Rate      int             `json:"rate,omitempty"`
	Actor     string          `json:"actor"`
	Reason    string          `json:"reason"`
	Driver    string          `json:"driver,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
}

func newAPIJob(table string, j outbox.Job) apiJob {
	f := j.Filter
	return apiJob{
		ID: j.ID, Table: table, Verb: j.Verb, State: j.State, Total: j.Total, Done: j.Done, Expect: j.Expect, Rate: j.Rate,
		Actor: j.Actor, Reason: j.Reason, Driver: j.Driver, CreatedAt: j.CreatedAt, UpdatedAt: j.UpdatedAt,
		Filter: apiFilter{f.Topic, f.Key, f.TenantID, f.Reason, f.Error, f.Route, f.Since, f.Until},
	}
}
