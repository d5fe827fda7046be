package console

import (
	"net/http"
	"slices"
	"time"

	"github.com/go-outbox/outbox"
)

// An overviewView is the first page.
type overviewView struct {
	*view
	Banner *banner
	Tables []tableView
	Groups []groupView
	Recent []auditView
}

// A tableView is one table at a glance.
type tableView struct {
	Name     string
	Err      bool
	Severity string
	Stats    outbox.Stats
	Rates    rates
	Held     int
	Live     int
	Oldest   chart
	Backlog  chart
	Dead     chart
	Problems []problem
	Fresh    int // messages that wait for their first attempt
	Since    time.Time
}

// Many: there is more than one table to tell apart.
func (d *overviewView) Many() bool { return len(d.Tables) > 1 }

const overviewGroups = 5

func (c *Console) overview(v *view) error {
	v.Screen = "overview"
	data := &overviewView{view: v}
	looks := make([]snapshot, len(c.cfg.Stores))
	for i := range c.cfg.Stores {
		source := &c.cfg.Stores[i]
		looks[i] = c.samples.look(v.ctx(), source.Name)
		if !looks[i].stats.Now.IsZero() {
			v.Now = looks[i].now()
		}
		data.Tables = append(data.Tables, v.newTableView(source.Name, looks[i]))
	}
	v.banner = v.newBanner(looks)
	data.Banner = v.banner
	for i := range c.cfg.Stores {
		if looks[i].err == nil {
			v.addDetails(data, &c.cfg.Stores[i], looks[i].stats)
		}
	}
	slices.SortStableFunc(data.Groups, func(a, b groupView) int { return b.Count - a.Count })
	slices.SortStableFunc(data.Recent, func(a, b auditView) int { return b.At.Compare(a.At) })
	data.Groups = data.Groups[:min(overviewGroups, len(data.Groups))]
	data.Recent = data.Recent[:min(overviewGroups, len(data.Recent))]
	return v.render(http.StatusOK, "overview", data)
}

// addDetails adds what fails and what was done about it. The overview does without
// rather than failing.
func (v *view) addDetails(data *overviewView, source *Source, stats outbox.Stats) {
	tenant, _ := v.confine("")
	if stats.Dead > 0 {
		groups, err := v.c.samples.deadGroups(v.ctx(), source.Name, tenant)
		if err == nil {
			for _, g := range groups.Groups[:min(overviewGroups, len(groups.Groups))] {
				data.Groups = append(data.Groups, groupView{Group: g, Table: source.Name})
			}
		}
	}
	if v.Who.scoped() {
		return
	}
	entries, err := source.Inspector.Audit(v.ctx(), outbox.AuditFilter{Limit: overviewGroups})
	if err != nil {
		return
	}
	for _, e := range entries {
		data.Recent = append(data.Recent, newAuditView(e, source.Name))
	}
}

func (v *view) newTableView(name string, s snapshot) tableView {
	t := tableView{Name: name, Err: s.err != nil, Severity: severityOK, Stats: s.stats}
	t.Problems = v.judge(name, s)
	for _, p := range t.Problems {
		if t.Severity != severityBad {
			t.Severity = p.Severity
		}
	}
	for _, l := range s.stats.Leases {
		if l.Held {
			t.Held++
		}
	}
	for _, r := range s.stats.Relays {
		if r.Live {
			t.Live++
		}
	}
	t.Fresh = max(0, s.stats.Pending-s.stats.InFlight-s.stats.Retrying-s.stats.Scheduled)
	points := v.c.samples.points(name)
	if len(points) > 0 {
		t.Since = points[0].at
	}
	t.Rates = newRates(points)
	t.Oldest = newChart(points, 30, func(p point) float64 { return p.oldest.Seconds() })
	t.Backlog = newChart(points, 10, func(p point) float64 { return float64(p.pending) })
	t.Dead = newChart(points, 5, func(p point) float64 { return float64(p.dead) })
	return t
}
