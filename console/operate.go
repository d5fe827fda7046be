package console

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// A keysView lists keys that a message holds.
type keysView struct {
	*view
	Keys []keyView
	Next string
	Done string
}

type keyView struct {
	outbox.HeldKey
	Status outbox.Status
	Link   string
}

// Capped: there may be more waiting.
func (k keyView) Capped() bool { return k.Waiting >= outbox.HeldCap }

func (c *Console) keys(v *view) error {
	v.Screen = "keys"
	data := &keysView{view: v, Done: v.param("done")}
	held, next, err := v.readKeys()
	if err != nil {
		return err
	}
	for _, k := range held {
		data.Keys = append(data.Keys, keyView{k, k.Head.Status(v.Now), v.Link("/messages/" + k.Head.EventID.String())})
	}
	// Within a page, the key that holds the most comes first.
	slices.SortStableFunc(data.Keys, func(a, b keyView) int { return cmp.Compare(b.Waiting, a.Waiting) })
	if next != 0 {
		data.Next = v.Link("/keys", "after", next)
	}
	return v.render(http.StatusOK, "keys", data)
}

// readKeys reads one page of held keys that the person may see.
func (v *view) readKeys() (held []outbox.HeldKey, next int64, err error) {
	after, err := v.number("after", 0, 1<<62)
	if err != nil {
		return nil, 0, err
	}
	limit, err := v.number("limit", 1, outbox.MaxPage)
	if err != nil {
		return nil, 0, err
	}
	size := int(cmp.Or(limit, 50))
	all, err := v.Source.Inspector.Keys(v.ctx(), after, size)
	if err != nil {
		return nil, 0, err
	}
	if look := v.c.samples.look(v.ctx(), v.Source.Name); look.err == nil {
		v.Now = look.now()
	}
	for _, k := range all {
		if v.Who.sees(k.Head.TenantID) {
			held = append(held, k)
		}
	}
	if len(all) == size {
		next = all[len(all)-1].Head.Sequence
	}
	return held, next, nil
}

var keyVerbs = []outbox.Verb{outbox.VerbRetryHead, outbox.VerbSkipHead, outbox.VerbReleaseKey}

func (c *Console) changeKey(v *view) error {
	verb := outbox.Verb(v.param("verb"))
	if !slices.Contains(keyVerbs, verb) {
		return refused(http.StatusBadRequest, "verb", "A key can be retried, skipped or released.")
	}
	if _, err := v.apply(outbox.Action{Verb: verb, Key: v.param("key"), Reason: v.param("reason")}); err != nil {
		return err
	}
	v.redirect(v.Link("/keys", "done", string(verb)))
	return nil
}

// A routesView lists destinations by what is known of them: paused ones, those whose
// circuit is open, and those that recent failures name.
type routesView struct {
	*view
	Routes []routeView
	Table  *outbox.PausedRoute // the whole table is paused
	Done   string
}

type routeView struct {
	Name    string
	Circuit *circuit
	Paused  *outbox.PausedRoute
	Note    *outbox.RouteNote // what live relays know
	Dead    int
	Error   string // the newest group's fingerprint
	Sample  uuid.UUID
}

// trouble orders routes: what is down first, then what is paused.
func (r routeView) trouble() int {
	switch {
	case r.Circuit != nil:
		return 2
	case r.Paused != nil:
		return 1
	}
	return 0
}

func (c *Console) routesPage(v *view) error {
	v.Screen = "routes"
	look := c.samples.look(v.ctx(), v.Source.Name)
	if look.err != nil {
		return look.err
	}
	v.Now = look.now()
	data := &routesView{view: v, Done: v.param("done")}
	for i, p := range look.stats.Paused {
		if p.Route == "" {
			data.Table = &look.stats.Paused[i]
			continue
		}
		data.route(p.Route).Paused = &look.stats.Paused[i]
	}
	open := openCircuits(look.stats)
	for i := range open {
		data.route(open[i].Route).Circuit = &open[i]
	}
	notes := routeNotes(look.stats)
	for i := range notes {
		data.route(notes[i].Route).Note = &notes[i]
	}
	tenant, _ := v.confine("")
	groups, err := c.samples.deadGroups(v.ctx(), v.Source.Name, tenant)
	if err != nil {
		return err
	}
	for _, g := range groups.Groups {
		r := data.route(g.Route)
		if r.Dead += g.Count; r.Error == "" {
			r.Error, r.Sample = g.Error, g.Sample
		}
	}
	slices.SortFunc(data.Routes, func(a, b routeView) int {
		return cmp.Or(cmp.Compare(b.trouble(), a.trouble()), cmp.Compare(b.Dead, a.Dead), cmp.Compare(a.Name, b.Name))
	})
	return v.render(http.StatusOK, "routes", data)
}

func (d *routesView) route(name string) *routeView {
	i := slices.IndexFunc(d.Routes, func(r routeView) bool { return r.Name == name })
	if i < 0 {
		d.Routes = append(d.Routes, routeView{Name: name})
		i = len(d.Routes) - 1
	}
	return &d.Routes[i]
}

func (c *Console) changeRoute(v *view) error {
	verb := outbox.Verb(v.param("verb"))
	if verb != outbox.VerbPause && verb != outbox.VerbResume {
		return refused(http.StatusBadRequest, "verb", "A route can be paused or resumed.")
	}
	if len(v.param("route")) > maxField {
		return refused(http.StatusBadRequest, "filter", "A field of the filter is too long.")
	}
	if _, err := v.apply(outbox.Action{Verb: verb, Route: v.param("route"), Reason: v.param("reason")}); err != nil {
		return err
	}
	v.redirect(v.Link("/routes", "done", string(verb)))
	return nil
}

// A relaysView lists relay processes and leases.
type relaysView struct {
	*view
	Stats outbox.Stats
	Done  string
}

// Shards is what an instance holds.
func (d *relaysView) Shards(instance string) int {
	n := 0
	for _, l := range d.Stats.Leases {
		if l.Held && l.Instance == instance {
			n++
		}
	}
	return n
}

// Slots is how many of the 256 slots a lease covers.
func (d *relaysView) Slots(l outbox.LeaseState) int { return l.SlotHi - l.SlotLo + 1 }

func (c *Console) relays(v *view) error {
	v.Screen = "relays"
	look := c.samples.look(v.ctx(), v.Source.Name)
	if look.err != nil {
		return look.err
	}
	v.Now = look.now()
	return v.render(http.StatusOK, "relays", &relaysView{view: v, Stats: look.stats, Done: v.param("done")})
}

func (c *Console) releaseLease(v *view) error {
	shard, err := v.number("shard", 0, 255)
	if err != nil {
		return err
	}
	if _, err := v.apply(outbox.Action{Verb: outbox.VerbReleaseLease, Shard: int(shard), Reason: v.param("reason")}); err != nil {
		return err
	}
	v.redirect(v.Link("/relays", "done", string(outbox.VerbReleaseLease)))
	return nil
}

func (c *Console) trigger(v *view) error {
	if _, err := v.apply(outbox.Action{Verb: outbox.VerbTrigger, Reason: cmp.Or(v.param("reason"), "asked for in the console")}); err != nil {
		return err
	}
	v.redirect(v.Link("/relays", "done", string(outbox.VerbTrigger)))
	return nil
}
