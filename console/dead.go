package console

import (
	"net/http"

	"github.com/go-outbox/outbox"
)

// A deadView is the dead letters by what they have in common.
type deadView struct {
	*view
	Filter *filterForm
	Groups []groupView
	Capped bool
	Total  int
	Most   int // the size of the largest group
}

// A groupView is one group.
type groupView struct {
	outbox.Group
	Table string
}

// Recent reports whether the group still grows.
func (g groupView) Recent(v *view) bool { return v.Now.Sub(g.Last) < recently }

func (c *Console) dead(v *view) error {
	v.Screen = "dead"
	form, err := v.readFilter()
	if err != nil {
		return err
	}
	form.Status = string(outbox.StatusDead)
	form.filter.Status = outbox.StatusDead
	groups, err := v.groups(form)
	if err != nil {
		return err
	}
	v.Now = groups.Now
	data := &deadView{view: v, Filter: form, Capped: groups.Capped}
	for _, g := range groups.Groups {
		data.Groups = append(data.Groups, groupView{Group: g, Table: v.Source.Name})
		data.Total += g.Count
		data.Most = max(data.Most, g.Count)
	}
	return v.render(http.StatusOK, "dead", data)
}

// groups reads the groups that a filter selects. Those of a whole table or tenant are
// from a moment ago: the page refreshes itself, for everybody who has it open.
func (v *view) groups(form *filterForm) (outbox.Groups, error) {
	if form.filter == (outbox.Filter{Status: outbox.StatusDead, TenantID: form.Tenant, OldestFirst: form.Oldest}) {
		return v.c.samples.deadGroups(v.ctx(), v.Source.Name, form.Tenant)
	}
	return v.Source.Inspector.Groups(v.ctx(), form.filter)
}

// Share is how wide the bar of a group is, of 100.
func (d *deadView) Share(g groupView) int { return max(1, g.Count*100/max(1, d.Most)) }
