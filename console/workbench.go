package console

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// rateChoices are messages a second; 0 is as fast as it goes.
var rateChoices = []int{10, 50, 100, 500, 1000, 0}

const defaultRate = 100

// A workbenchView is a bulk change before it is made.
type workbenchView struct {
	*view
	Filter  *filterForm
	Verb    outbox.Verb
	Preview *outbox.JobPreview // nil: nothing is selected yet
	Rates   []rateChoice
	Rate    int
	Reason  string
	Problem string // why a start was refused
	Once    string // makes sending the form twice start one job
	Jobs    []jobView
	Most    int
}

// A rateChoice is a rate with how long it takes.
type rateChoice struct {
	Rate  int
	Takes time.Duration
}

func (c *Console) workbench(v *view) error {
	form, err := v.readSelection()
	if err != nil {
		return err
	}
	verb, err := v.readJobVerb()
	if err != nil {
		return err
	}
	return v.showWorkbench(http.StatusOK, form, verb, "")
}

// readSelection reads the filter of a job.
func (v *view) readSelection() (*filterForm, error) {
	form, err := v.readFilter()
	if err != nil {
		return nil, err
	}
	form.Status, form.Oldest = string(outbox.StatusDead), false
	form.filter.Status, form.filter.OldestFirst = outbox.StatusDead, false
	return form, nil
}

func (v *view) readJobVerb() (outbox.Verb, error) {
	switch verb := outbox.Verb(v.param("verb")); verb {
	case "":
		return outbox.VerbReplay, nil
	case outbox.VerbReplay, outbox.VerbDiscard:
		return verb, nil
	}
	return "", refused(http.StatusBadRequest, "verb", "Messages can be replayed or discarded in bulk.")
}

func (v *view) showWorkbench(status int, form *filterForm, verb outbox.Verb, problem string) error {
	v.Screen = "replay"
	data := &workbenchView{
		view: v, Filter: form, Verb: verb, Problem: problem, Once: uuid.NewString(),
		Rate: defaultRate, Reason: v.param("reason"),
	}
	if rate, err := v.number("rate", 0, 100_000); err == nil && v.param("rate") != "" {
		data.Rate = int(rate)
	}
	if form.Narrow() && v.Source.Operator != nil {
		req := outbox.JobRequest{Verb: verb, Filter: form.filter, Rate: data.Rate, Actor: v.actor(), Reason: "preview"}
		preview, err := v.Source.Operator.PreviewJob(v.ctx(), req)
		if err != nil {
			return err
		}
		data.addPreview(&preview)
	}
	if err := data.addJobs(); err != nil {
		return err
	}
	return v.render(status, "workbench", data)
}

func (d *workbenchView) addPreview(p *outbox.JobPreview) {
	d.Preview = p
	for _, rate := range rateChoices {
		choice := rateChoice{Rate: rate}
		if rate > 0 {
			choice.Takes = max(time.Second, time.Duration(p.Count)*time.Second/time.Duration(rate))
		}
		d.Rates = append(d.Rates, choice)
	}
	for _, t := range p.Topics {
		d.Most = max(d.Most, t.Count)
	}
}

// Share is how wide the bar of a topic is, of 100.
func (d *workbenchView) Share(n int) int { return max(1, n*100/max(1, d.Most)) }

// MayStart reports whether the person may start this job.
func (d *workbenchView) MayStart() bool {
	if d.Verb == outbox.VerbDiscard {
		return d.May(RoleAdmin)
	}
	return d.May(RoleOperator)
}

const shownJobs = 10

func (d *workbenchView) addJobs() error {
	jobs, err := d.Source.Inspector.Jobs(d.ctx(), shownJobs)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if d.Who.sees(j.Filter.TenantID) {
			d.Jobs = append(d.Jobs, d.newJobView(j))
		}
	}
	return nil
}

// startJob starts what the workbench has shown: the person has typed the count.
func (c *Console) startJob(v *view) error {
	form, err := v.readSelection()
	if err != nil {
		return err
	}
	verb, err := v.readJobVerb()
	if err != nil {
		return err
	}
	expect, err := v.number("expect", 1, outbox.MaxJob)
	if err != nil {
		return err
	}
	rate, err := v.number("rate", 0, 100_000)
	if err != nil {
		return err
	}
	typed := strings.NewReplacer(",", "", " ", "").Replace(v.param("count"))
	switch {
	case typed != strconv.FormatInt(expect, 10):
		return v.showWorkbench(http.StatusUnprocessableEntity, form, verb, v.T("Nothing was started: the number you typed is not the count."))
	case strings.TrimSpace(v.param("reason")) == "":
		return v.showWorkbench(http.StatusUnprocessableEntity, form, verb, v.T("Nothing was started: say why, for the record."))
	}
	job, err := v.start(outbox.JobRequest{
		Verb: verb, Filter: form.filter, Expect: int(expect), Rate: int(rate), Reason: v.param("reason"),
	}, v.param("once"))
	if describe(err).reason == "drift" {
		return v.showWorkbench(http.StatusConflict, form, verb, v.T("Nothing was started: the count has changed. Look again and confirm the new one."))
	}
	if err != nil {
		return err
	}
	v.redirect(v.Link("/jobs/" + job.ID.String()))
	return nil
}

// start records a job and drives it. once, when given, names this very request: sending
// it again finds the job that it started.
func (v *view) start(req outbox.JobRequest, once string) (outbox.Job, error) {
	operator, err := v.operator()
	if err != nil {
		return outbox.Job{}, err
	}
	req.Actor = v.actor()
	if err := v.authorizeJob(req); err != nil {
		return outbox.Job{}, err
	}
	if len(once) > 100 {
		return outbox.Job{}, refused(http.StatusBadRequest, "once", "The idempotency key is too long.")
	}
	return v.c.once.do(v.actor()+"\x00"+v.Source.Name+"\x00"+once, once != "", func() (outbox.Job, error) {
		slot, err := v.c.jobs.reserve()
		if err != nil {
			return outbox.Job{}, err
		}
		job, err := operator.StartJob(v.ctx(), req)
		if err != nil {
			slot.release()
			return outbox.Job{}, err
		}
		v.audited(outbox.VerbStartJob, job.Total, req.Reason)
		slot.drive(v, operator, job.ID)
		return job, nil
	})
}

// authorizeJob checks a bulk change: never without a filter, never beyond the person's
// tenants, and discarding many is for admins.
func (v *view) authorizeJob(req outbox.JobRequest) error {
	f := req.Filter
	switch {
	case len(req.Reason) > 1000:
		return refused(http.StatusBadRequest, "reason", "The reason is too long.")
	case req.Verb != outbox.VerbReplay && req.Verb != outbox.VerbDiscard:
		return refused(http.StatusBadRequest, "verb", "Messages can be replayed or discarded in bulk.")
	case req.Verb == outbox.VerbDiscard && !v.Who.Role.allows(RoleAdmin):
		return refused(http.StatusForbidden, "role", "Your role does not allow that.")
	case f.Topic+f.Key+f.TenantID+f.Reason+f.Error+f.Route == "" && f.Since.IsZero() && f.Until.IsZero():
		return refused(http.StatusBadRequest, "filter", "Say which messages: a bulk change needs a filter.")
	case v.Who.scoped() && (f.TenantID == "" || !v.Who.sees(f.TenantID)):
		return errForeign
	}
	return nil
}
