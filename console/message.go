package console

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/wire"
)

const (
	maxShown = 64 << 10 // bytes of a payload on a page
	maxHex   = 2 << 10
)

// A messageView is one message.
type messageView struct {
	*view
	Record   *outbox.Record
	Status   outbox.Status
	Why      explanation
	Behind   string // link to the message that holds this one
	Timeline []moment
	Headers  []header
	Sent     []header
	SentErr  string
	Payload  *shownPayload // nil: not asked for, or not allowed
	MayRead  bool
	Audit    []auditView
	Commands []command
	Done     string
	Size     int
}

// A moment is one entry of a message's timeline, oldest first.
type moment struct {
	At      time.Time
	Class   string
	Title   string
	Attempt int
	Route   string
	Text    string
	Took    time.Duration
}

type header struct{ Name, Value string }

// A command is something to paste into a terminal.
type command struct{ Name, Text string }

// A shownPayload is a payload for reading.
type shownPayload struct {
	Kind string // json, text or hex
	Text string
	Cut  bool
}

func (c *Console) message(v *view) error { return c.showMessage(v, false) }

func (c *Console) showMessage(v *view, payload bool) error {
	v.Screen = "messages"
	id, err := v.readID()
	if err != nil {
		return err
	}
	record, err := v.find(id)
	if err != nil {
		return err
	}
	data, err := v.newMessageView(record)
	if err != nil {
		return err
	}
	if payload {
		shown := v.mask(record)
		data.Payload = &shown
	}
	return v.render(http.StatusOK, "message", data)
}

func (v *view) newMessageView(record *outbox.Record) (*messageView, error) {
	in := v.Source.Inspector
	attempts, err := in.Attempts(v.ctx(), record.Sequence)
	if err != nil {
		return nil, err
	}
	look := v.c.samples.look(v.ctx(), v.Source.Name)
	if look.err != nil {
		return nil, look.err
	}
	v.Now = look.now()
	data := &messageView{
		view: v, Record: record, Status: record.Status(v.Now), Timeline: v.newTimeline(record, attempts),
		Headers: sortedHeaders(record.Headers), MayRead: v.mayRead(), Size: len(record.Payload),
		Done: v.param("done"),
	}
	if data.Why, err = v.why(record.EventID); err != nil {
		return nil, err
	}
	if data.Why.Behind != uuid.Nil && data.Why.Behind != record.EventID {
		data.Behind = v.Link("/messages/" + data.Why.Behind.String())
	}
	meta := record.Meta(look.stats.Table)
	sent, err := wire.Headers(&meta)
	if err != nil {
		data.SentErr = err.Error()
	}
	for _, h := range sent {
		data.Sent = append(data.Sent, header(h))
	}
	entries, err := in.Audit(v.ctx(), outbox.AuditFilter{EventID: record.EventID, Limit: 20})
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data.Audit = append(data.Audit, newAuditView(e, v.Source.Name))
	}
	data.Commands = v.newCommands(record)
	return data, nil
}

func sortedHeaders(m map[string]string) []header {
	var list []header
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, header{name, m[name]})
	}
	return list
}

// newTimeline tells the life of a message: when it was written, each attempt that was
// recorded, and how it ended or goes on.
func (v *view) newTimeline(r *outbox.Record, attempts []outbox.Attempt) []moment {
	line := []moment{{At: r.CreatedAt, Class: "start", Title: v.T("Committed with its transaction")}}
	for _, a := range slices.Backward(attempts) {
		class, title := "fail", v.T("Attempt %d failed", a.Attempt)
		switch a.Outcome {
		case "dead":
			title = v.T("Attempt %d failed for good", a.Attempt)
		case "deferred":
			class, title = "wait", v.T("Put back: the destination was not available")
		case "delivered", "published":
			class, title = "good", v.T("Attempt %d delivered", a.Attempt)
		}
		line = append(line, moment{a.At, class, title, a.Attempt, a.Route, a.Error, a.Took})
	}
	if r.Replays > 0 {
		line = append(line, moment{Class: "info", Title: v.T("Replayed %d times so far; attempts began again", r.Replays)})
	}
	switch r.Status(v.Now) {
	case outbox.StatusPublished:
		line = append(line, moment{At: r.PublishedAt, Class: "good", Title: v.T("Delivered and acknowledged")})
	case outbox.StatusDead:
		line = append(line, moment{At: r.DeadAt, Class: "dead", Title: v.T("Given up: %s", r.DeadReason)})
	case outbox.StatusDiscarded:
		line = append(line, moment{At: r.DeadAt, Class: "dead", Title: v.T("Discarded by a person")})
	case outbox.StatusRetrying, outbox.StatusScheduled:
		line = append(line, moment{At: r.AvailableAt, Class: "next", Title: v.T("Next attempt")})
	case outbox.StatusInFlight:
		line = append(line, moment{Class: "next", Title: v.T("Being delivered now")})
	default:
		line = append(line, moment{Class: "next", Title: v.T("Waiting for a relay")})
	}
	return line
}

// newCommands are what to paste into a terminal. Values are quoted for a shell.
func (v *view) newCommands(r *outbox.Record) []command {
	id, table := r.EventID.String(), quote(v.Source.Name)
	origin := "http://" + v.r.Host
	if v.c.secure(v.r) {
		origin = "https://" + v.r.Host
	}
	return []command{
		{v.T("Explain on the command line"), "outbox explain " + id + " --table " + table},
		{v.T("Replay on the command line"), "outbox replay " + id + " --table " + table + " --reason 'why'"},
		{v.T("Read with curl"), `curl -H "Authorization: Bearer $OUTBOX_TOKEN" ` + quote(origin+v.Link("/api/messages/"+id, "table", v.Source.Name))},
	}
}

// quote makes one word of a shell of any text.
func quote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// mayRead reports whether the person may see payloads.
func (v *view) mayRead() bool { return v.Who.Role.allows(v.c.cfg.PayloadRole) }

const verbReadPayload outbox.Verb = "read_payload"

// payload shows a payload, or sends it as a file. Each look is recorded first: without
// the record there is no payload.
func (c *Console) payload(v *view) error {
	if !v.mayRead() {
		return refused(http.StatusForbidden, "payload", "Your role does not allow to see payloads.")
	}
	id, err := v.readID()
	if err != nil {
		return err
	}
	record, err := v.find(id)
	if err != nil {
		return err
	}
	if err := v.recordRead(record); err != nil {
		return err
	}
	if v.param("download") != "" {
		return v.download(record)
	}
	return c.showMessage(v, true)
}

// recordRead audits a look at a payload where the store can, and logs it in any case.
func (v *view) recordRead(r *outbox.Record) error {
	v.c.cfg.Log.LogAttrs(v.ctx(), slog.LevelInfo, "payload read", slog.String("actor", v.actor()),
		slog.String("table", v.Source.Name), slog.String("id", r.EventID.String()))
	recorder, ok := v.Source.Operator.(outbox.Recorder)
	if !ok {
		recorder, ok = v.Source.Inspector.(outbox.Recorder)
	}
	if !ok {
		return nil
	}
	return recorder.Record(v.ctx(), outbox.AuditEntry{
		Actor: v.actor(), Verb: verbReadPayload, Reason: "looked at in the console",
		EventID: r.EventID, Sequence: r.Sequence, Messages: 1, Before: r.Status(v.Now), After: r.Status(v.Now),
	})
}

func (v *view) masked(r *outbox.Record) []byte {
	if v.c.cfg.Mask == nil {
		return r.Payload
	}
	return v.c.cfg.Mask(r.Topic, bytes.Clone(r.Payload))
}

// download sends the payload as a file that no browser opens as a page.
func (v *view) download(r *outbox.Record) error {
	h := v.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="%s.bin"`, r.EventID))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	_, _ = v.w.Write(v.masked(r))
	return nil
}

// mask makes a payload readable.
func (v *view) mask(r *outbox.Record) shownPayload {
	body := v.masked(r)
	var indented bytes.Buffer
	switch {
	case json.Valid(body) && json.Indent(&indented, body, "", "  ") == nil:
		return cutPayload("json", indented.Bytes())
	case utf8.Valid(body):
		return cutPayload("text", body)
	default:
		return shownPayload{Kind: "hex", Text: hex.Dump(body[:min(len(body), maxHex)]), Cut: len(body) > maxHex}
	}
}

func cutPayload(kind string, body []byte) shownPayload {
	cut := len(body) > maxShown
	text := string(body[:min(len(body), maxShown)])
	lines := strings.Split(strings.ToValidUTF8(text, ""), "\n")
	for i := range lines { // the line breaks are ours; everything else is made visible
		lines[i] = plain(strings.ReplaceAll(lines[i], "\t", "    "))
	}
	return shownPayload{Kind: kind, Text: strings.Join(lines, "\n"), Cut: cut}
}

// messageVerbs are what can be done to one message.
var messageVerbs = map[string]outbox.Verb{
	"replay": outbox.VerbReplay, "discard": outbox.VerbDiscard, "reschedule": outbox.VerbReschedule,
}

func (c *Console) changeMessage(v *view) error {
	id, err := v.readID()
	if err != nil {
		return err
	}
	verb, ok := messageVerbs[v.r.PathValue("verb")]
	if !ok {
		return refused(http.StatusNotFound, "path", "There is no such page.")
	}
	a := outbox.Action{Verb: verb, EventID: id, Reason: v.param("reason")}
	if verb == outbox.VerbReschedule {
		if a.At, err = v.parseMoment(v.param("at")); err != nil {
			return err
		}
	}
	if _, err := v.apply(a); err != nil {
		return err
	}
	v.redirect(v.Link("/messages/"+id.String(), "done", string(verb)))
	return nil
}

// parseMoment is parseTime where a bare duration is ahead of us.
func (v *view) parseMoment(text string) (time.Time, error) {
	if ahead, err := time.ParseDuration(text); err == nil && ahead >= 0 && ahead < maxPast {
		return time.Now().Add(ahead), nil
	}
	return v.parseTime(text)
}

// apply makes one change, in the name of the person and within their tenants.
func (v *view) apply(a outbox.Action) (outbox.Effect, error) {
	operator, err := v.operator()
	if err != nil {
		return outbox.Effect{}, err
	}
	a.Actor = v.actor()
	if err := v.authorize(a); err != nil {
		return outbox.Effect{}, err
	}
	effect, err := operator.Apply(v.ctx(), a)
	if err != nil {
		return outbox.Effect{}, err
	}
	v.c.samples.forget(v.Source.Name)
	v.audited(a.Verb, effect.Messages, a.Reason)
	return effect, nil
}

// authorize checks that what an action is about is of the person's tenants.
func (v *view) authorize(a outbox.Action) error {
	if len(a.Reason) > 1000 {
		return refused(http.StatusBadRequest, "reason", "The reason is too long.")
	}
	switch {
	case a.Verb == outbox.VerbReleaseLease && !v.Who.Role.allows(RoleAdmin):
		return refused(http.StatusForbidden, "role", "Your role does not allow that.")
	case !v.Who.scoped():
		return nil
	}
	switch a.Verb {
	case outbox.VerbReplay, outbox.VerbDiscard, outbox.VerbReschedule:
		_, err := v.find(a.EventID)
		return err
	case outbox.VerbRetryHead, outbox.VerbSkipHead, outbox.VerbReleaseKey:
		return v.ownsKey(a.Key)
	}
	return refused(http.StatusForbidden, "tenant", "That concerns more than your tenants.")
}

// maxKeyPages bounds how much of a key is looked at before a change of it.
const maxKeyPages = 10

// ownsKey checks every message of a key that a verb could touch.
func (v *view) ownsKey(key string) error {
	for _, status := range []outbox.Status{outbox.StatusDead, outbox.StatusRetrying, outbox.StatusScheduled} {
		f := outbox.Filter{Key: key, Status: status, Limit: outbox.MaxPage, OldestFirst: true}
		for page := 0; ; page++ {
			list, err := v.Source.Inspector.List(v.ctx(), f)
			if err != nil {
				return err
			}
			if page == maxKeyPages || slices.ContainsFunc(list.Records, func(r *outbox.Record) bool { return !v.Who.sees(r.TenantID) }) {
				return errForeign
			}
			if f.After = list.Next; list.Next == 0 {
				break
			}
		}
	}
	return nil
}

// CauseName is the cause in words.
func (d *messageView) CauseName() string {
	if d.Why.Cause == "held" {
		return d.T("held back")
	}
	return d.T(strings.ReplaceAll(d.Why.Cause, "_", " "))
}
