package console

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// json answers with an object.
func (v *view) json(status int, body any) error {
	v.w.Header().Set("Content-Type", "application/json")
	v.w.WriteHeader(status)
	encoder := json.NewEncoder(v.w)
	encoder.SetEscapeHTML(true)
	_ = encoder.Encode(body) // the client is gone; nobody to tell
	return nil
}

// apiError is the body of every error.
func (v *view) apiError(r *refusal) {
	if r.status == http.StatusTooManyRequests {
		v.w.Header().Set("Retry-After", "60")
	}
	if r.status == http.StatusUnauthorized {
		v.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	_ = v.json(r.status, map[string]string{"error": r.reason, "text": r.text})
}

// decode reads the JSON body of a change. Only JSON: a form of another site cannot send
// it, whatever else it can do.
func (v *view) decode(into any) error {
	if t, _, _ := strings.Cut(v.r.Header.Get("Content-Type"), ";"); t != "application/json" {
		return refused(http.StatusUnsupportedMediaType, "content_type", "Send application/json.")
	}
	d := json.NewDecoder(v.r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}
	if err != nil && !errors.Is(err, io.EOF) || d.More() {
		return refused(http.StatusBadRequest, "json", "The body is not the JSON that this endpoint takes.")
	}
	return nil
}

func (c *Console) apiTables(v *view) error {
	tables := make([]apiTable, len(c.cfg.Stores))
	for i, s := range c.cfg.Stores {
		look := c.samples.look(v.ctx(), s.Name)
		tables[i] = newAPITable(s.Name, look, newRates(c.samples.points(s.Name)))
		tables[i].Problems = v.apiProblems(s.Name, look)
	}
	return v.json(http.StatusOK, map[string]any{"tables": tables})
}

func (v *view) apiProblems(table string, look snapshot) []apiProblem {
	problems := []apiProblem{}
	for _, p := range v.judge(table, look) {
		problems = append(problems, apiProblem{p.Severity, p.Code, p.Text, p.Detail})
	}
	return problems
}

func (c *Console) apiMessages(v *view) error {
	form, err := v.readFilter()
	if err != nil {
		return err
	}
	list, err := v.list(form)
	if err != nil {
		return err
	}
	messages := make([]apiMessage, len(list.Records))
	for i, r := range list.Records {
		messages[i] = newAPIMessage(v.Source.Name, r, list.Now)
	}
	return v.json(http.StatusOK, map[string]any{"messages": messages, "next": list.Next, "now": list.Now})
}

func (v *view) apiFind() (*outbox.Record, error) {
	id, err := v.readID()
	if err != nil {
		return nil, err
	}
	return v.find(id)
}

func (c *Console) apiMessage(v *view) error {
	record, err := v.apiFind()
	if err != nil {
		return err
	}
	if look := c.samples.look(v.ctx(), v.Source.Name); look.err == nil {
		v.Now = look.now()
	}
	message := newAPIMessage(v.Source.Name, record, v.Now)
	if v.param("payload") == "" {
		return v.json(http.StatusOK, message)
	}
	if !v.mayRead() {
		return refused(http.StatusForbidden, "payload", "Your role does not allow to see payloads.")
	}
	if err := v.recordRead(record); err != nil {
		return err
	}
	message.setPayload(v.masked(record))
	return v.json(http.StatusOK, message)
}

func (c *Console) apiAttempts(v *view) error {
	record, err := v.apiFind()
	if err != nil {
		return err
	}
	attempts, err := v.Source.Inspector.Attempts(v.ctx(), record.Sequence)
	if err != nil {
		return err
	}
	list := make([]apiAttempt, len(attempts))
	for i, a := range attempts {
		list[i] = apiAttempt{a.At, a.Attempt, a.Route, a.Outcome, a.Error, a.Took.Seconds()}
	}
	return v.json(http.StatusOK, map[string]any{"attempts": list})
}

func (c *Console) apiExplain(v *view) error {
	record, err := v.apiFind()
	if err != nil {
		return err
	}
	why, err := v.why(record.EventID)
	if err != nil {
		return err
	}
	answer := apiExplanation{Cause: why.Cause, Text: why.Text, Fix: why.Fix}
	if why.Behind != uuid.Nil {
		answer.Behind = why.Behind.String()
	}
	return v.json(http.StatusOK, answer)
}

func (c *Console) apiGroups(v *view) error {
	form, err := v.readFilter()
	if err != nil {
		return err
	}
	form.filter.Status = outbox.StatusDead
	groups, err := v.Source.Inspector.Groups(v.ctx(), form.filter)
	if err != nil {
		return err
	}
	list := make([]apiGroup, len(groups.Groups))
	for i, g := range groups.Groups {
		list[i] = apiGroup(g)
	}
	return v.json(http.StatusOK, map[string]any{"groups": list, "capped": groups.Capped, "now": groups.Now})
}

func (c *Console) apiKeys(v *view) error {
	held, next, err := v.readKeys()
	if err != nil {
		return err
	}
	list := make([]apiKey, len(held))
	for i, k := range held {
		list[i] = apiKey{k.Key, k.Waiting, newAPIMessage(v.Source.Name, k.Head, v.Now)}
	}
	return v.json(http.StatusOK, map[string]any{"keys": list, "next": next})
}

func (c *Console) apiAudit(v *view) error {
	entries, _, err := v.readAudit()
	if err != nil {
		return err
	}
	list := make([]apiEntry, len(entries))
	for i, e := range entries {
		list[i] = newAPIEntry(e)
	}
	return v.json(http.StatusOK, map[string]any{"entries": list})
}

func (c *Console) apiJobs(v *view) error {
	limit, err := v.number("limit", 1, outbox.MaxPage)
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = 50
	}
	jobs, err := v.Source.Inspector.Jobs(v.ctx(), int(limit))
	if err != nil {
		return err
	}
	list := []apiJob{}
	for _, j := range jobs {
		if v.Who.sees(j.Filter.TenantID) {
			list = append(list, newAPIJob(v.Source.Name, j))
		}
	}
	return v.json(http.StatusOK, map[string]any{"jobs": list})
}

func (c *Console) apiJob(v *view) error {
	job, err := v.findJob()
	if err != nil {
		return err
	}
	return v.json(http.StatusOK, newAPIJob(v.Source.Name, job))
}

// apiAction does what the forms of the pages do; with preview it says what it would.
func (c *Console) apiAction(v *view) error {
	var body struct {
		Table   string      `json:"table"`
		Verb    outbox.Verb `json:"verb"`
		Reason  string      `json:"reason"`
		EventID uuid.UUID   `json:"event_id"`
		At      time.Time   `json:"at"`
		Route   string      `json:"route"`
		Key     string      `json:"key"`
		Shard   int         `json:"shard"`
		Preview bool        `json:"preview"`
	}
	if err := v.decode(&body); err != nil {
		return err
	}
	if err := v.choose(body.Table); err != nil {
		return err
	}
	a := outbox.Action{
		Verb: body.Verb, Reason: body.Reason, EventID: body.EventID, At: body.At, Route: body.Route,
		Key: body.Key, Shard: body.Shard,
	}
	do := v.apply
	if body.Preview {
		do = v.preview
	}
	effect, err := do(a)
	if err != nil {
		return err
	}
	return v.json(http.StatusOK, apiEffect{effect.Messages, effect.Before, effect.After, body.Preview})
}

func (v *view) choose(table string) error {
	if table == "" {
		return nil
	}
	source, ok := v.c.source(table)
	if !ok {
		return refused(http.StatusNotFound, "table", "There is no such table.")
	}
	v.Source = source
	return nil
}

func (v *view) preview(a outbox.Action) (outbox.Effect, error) {
	operator, err := v.operator()
	if err != nil {
		return outbox.Effect{}, err
	}
	a.Actor = v.actor()
	if err := v.authorize(a); err != nil {
		return outbox.Effect{}, err
	}
	return operator.Preview(v.ctx(), a)
}

// apiTrigger makes the relays look at a table at once.
func (c *Console) apiTrigger(v *view) error {
	var body struct {
		Table  string `json:"table"`
		Reason string `json:"reason"`
	}
	if err := v.decode(&body); err != nil {
		return err
	}
	if err := v.choose(body.Table); err != nil {
		return err
	}
	if body.Reason == "" {
		body.Reason = "triggered over the API"
	}
	effect, err := v.apply(outbox.Action{Verb: outbox.VerbTrigger, Reason: body.Reason})
	if err != nil {
		return err
	}
	return v.json(http.StatusOK, map[string]any{"table": v.Source.Name, "messages": effect.Messages})
}

// A jobBody is a bulk change as the API takes it.
type jobBody struct {
	Table  string      `json:"table"`
	Verb   outbox.Verb `json:"verb"`
	Filter apiFilter   `json:"filter"`
	Expect int         `json:"expect"`
	Cap    int         `json:"cap"`
	Rate   int         `json:"rate"`
	Reason string      `json:"reason"`
}

func (v *view) decodeJob() (outbox.JobRequest, error) {
	var body jobBody
	if err := v.decode(&body); err != nil {
		return outbox.JobRequest{}, err
	}
	if err := v.choose(body.Table); err != nil {
		return outbox.JobRequest{}, err
	}
	f := body.Filter
	tenant, err := v.confine(f.TenantID)
	if err != nil {
		return outbox.JobRequest{}, err
	}
	return outbox.JobRequest{
		Verb: body.Verb, Expect: body.Expect, Cap: body.Cap, Rate: body.Rate, Reason: body.Reason, Actor: v.actor(),
		Filter: outbox.Filter{
			Status: outbox.StatusDead, Topic: f.Topic, Key: f.Key, TenantID: tenant, Reason: f.Reason,
			Error: f.Error, Route: f.Route, Since: f.Since, Until: f.Until,
		},
	}, nil
}

func (c *Console) apiPreviewJob(v *view) error {
	req, err := v.decodeJob()
	if err != nil {
		return err
	}
	operator, err := v.operator()
	if err != nil {
		return err
	}
	if req.Reason == "" {
		req.Reason = "preview"
	}
	if err := v.authorizeJob(req); err != nil {
		return err
	}
	p, err := operator.PreviewJob(v.ctx(), req)
	if err != nil {
		return err
	}
	topics := make([]apiCount, len(p.Topics))
	for i, t := range p.Topics {
		topics[i] = apiCount(t)
	}
	return v.json(http.StatusOK, apiPreview{p.Count, p.Capped, topics, p.KeyConflicts, p.Takes.Seconds()})
}

func (c *Console) apiStartJob(v *view) error {
	req, err := v.decodeJob()
	if err != nil {
		return err
	}
	job, err := v.start(req, v.r.Header.Get("Idempotency-Key"))
	if err != nil {
		return err
	}
	return v.json(http.StatusCreated, newAPIJob(v.Source.Name, job))
}

func (c *Console) apiChangeJob(v *view) error {
	var body struct {
		State  outbox.JobState `json:"state"`
		Reason string          `json:"reason"`
	}
	if err := v.decode(&body); err != nil {
		return err
	}
	switch body.State {
	case outbox.JobRunning, outbox.JobPaused, outbox.JobCancelled:
	default:
		return refused(http.StatusBadRequest, "state", "A job can be running, paused or cancelled.")
	}
	job, err := v.setJob(body.State, body.Reason)
	if err != nil {
		return err
	}
	return v.json(http.StatusOK, newAPIJob(v.Source.Name, job))
}
