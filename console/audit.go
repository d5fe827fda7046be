package console

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// An auditPage lists who changed what.
type auditPage struct {
	*view
	Entries []auditView
	Verb    string
	Actor   string
	Verbs   []outbox.Verb
	Next    string
}

// An auditView is one entry.
type auditView struct {
	outbox.AuditEntry
	Source string
	IsJob  bool
}

// jobVerbs are the verbs of entries whose id is that of a job.
var jobVerbs = map[outbox.Verb]bool{
	outbox.VerbStartJob: true, outbox.VerbPauseJob: true, outbox.VerbResumeJob: true, outbox.VerbCancelJob: true,
}

func newAuditView(e outbox.AuditEntry, source string) auditView {
	return auditView{e, source, jobVerbs[e.Verb] || e.EventID != uuid.Nil && e.Sequence == 0 && e.Filter != ""}
}

// HasID reports whether there is something to open.
func (a auditView) HasID() bool { return a.EventID != uuid.Nil }

var auditVerbs = []outbox.Verb{
	outbox.VerbReplay, outbox.VerbDiscard, outbox.VerbReschedule, outbox.VerbPause, outbox.VerbResume,
	outbox.VerbRetryHead, outbox.VerbSkipHead, outbox.VerbReleaseKey, outbox.VerbTrigger, outbox.VerbReleaseLease, outbox.VerbPurge,
	outbox.VerbStartJob, outbox.VerbPauseJob, outbox.VerbResumeJob, outbox.VerbCancelJob,
	outbox.VerbCircuitOpen, outbox.VerbCircuitClose, verbReadPayload,
}

func (c *Console) audit(v *view) error {
	v.Screen = "audit"
	entries, f, err := v.readAudit()
	if err != nil {
		return err
	}
	data := &auditPage{view: v, Verb: string(f.Verb), Actor: f.Actor, Verbs: auditVerbs}
	for _, e := range entries {
		data.Entries = append(data.Entries, newAuditView(e, v.Source.Name))
	}
	if len(entries) == f.PageSize() {
		data.Next = v.Link("/audit", "verb", f.Verb, "actor", f.Actor, "before", entries[len(entries)-1].ID)
	}
	return v.render(http.StatusOK, "audit", data)
}

// readAudit reads one page of the audit log. Its entries are not of one tenant, so
// people who are confined to some do not see it.
func (v *view) readAudit() ([]outbox.AuditEntry, outbox.AuditFilter, error) {
	if v.Who.scoped() {
		return nil, outbox.AuditFilter{}, refused(http.StatusForbidden, "tenant", "That concerns more than your tenants.")
	}
	f := outbox.AuditFilter{Verb: outbox.Verb(v.param("verb")), Actor: v.param("actor")}
	if len(f.Verb)+len(f.Actor) > maxField {
		return nil, f, refused(http.StatusBadRequest, "filter", "A field of the filter is too long.")
	}
	limit, err := v.number("limit", 1, outbox.MaxPage)
	if err != nil {
		return nil, f, err
	}
	f.Limit = int(limit)
	if f.Before, err = v.number("before", 1, 1<<62); err != nil {
		return nil, f, err
	}
	entries, err := v.Source.Inspector.Audit(v.ctx(), f)
	return entries, f, err
}

// A settingsView shows facts; only the preferences can be changed.
type settingsView struct {
	*view
	Facts   []Fact
	Refused []Fact
	Zones   []string
}

func (c *Console) settings(v *view) error {
	v.Screen = "settings"
	facts := []Fact{
		{v.T("Version"), c.cfg.Version},
		{v.T("You are"), v.Who.Name + " · " + string(v.Who.Role)},
		{v.T("Payloads are shown to"), string(c.cfg.PayloadRole)},
		{v.T("Read-only"), v.yesNo(c.cfg.ReadOnly)},
		{v.T("A session ends after"), v.T("%s without a request, %s in any case", v.Age(c.cfg.Idle), v.Age(c.cfg.Lifetime))},
		{v.T("Tables are sampled every"), v.Age(c.cfg.Every)},
		{v.T("The banner warns when the oldest message waits"), v.Age(c.cfg.Health.OldestWarn) + " / " + v.Age(c.cfg.Health.OldestBad)},
	}
	data := &settingsView{view: v, Facts: append(facts, c.cfg.Facts...), Zones: zones}
	for reason, n := range c.refusals.all() {
		data.Refused = append(data.Refused, Fact{reason, v.Count(int(n))})
	}
	sortFacts(data.Refused)
	return v.render(http.StatusOK, "settings", data)
}

func (v *view) yesNo(b bool) string {
	if b {
		return v.T("yes")
	}
	return v.T("no")
}

// LocalTime is the present time in the chosen zone.
func (d *settingsView) LocalTime() string { return d.Time(time.Now()) }

func sortFacts(facts []Fact) {
	slices.SortFunc(facts, func(a, b Fact) int { return strings.Compare(a.Name, b.Name) })
}
