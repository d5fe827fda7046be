package console

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

// A messagesView is the list of messages.
type messagesView struct {
	*view
	Filter *filterForm
	Tabs   []tab
	Rows   []row
	Next   string
	First  string // the first page, when this is another
	Live   bool
	Toggle string
}

// A tab is one status with its count.
type tab struct {
	Name    string
	Status  string
	Link    string
	Current bool
	Count   int
	Counted bool
	Capped  bool
}

// A row is a message in a list.
type row struct {
	*outbox.Record
	Status outbox.Status
	Link   string
}

func (c *Console) messages(v *view) error {
	v.Screen = "messages"
	// An id in the search field opens the message.
	if id, err := uuid.Parse(v.param("id")); err == nil {
		v.redirect(v.Link("/messages/" + id.String()))
		return nil
	}
	form, err := v.readFilter()
	if err != nil {
		return err
	}
	list, err := v.list(form)
	if err != nil {
		return err
	}
	data := &messagesView{view: v, Filter: form, Live: v.param("live") != ""}
	for _, r := range list.Records {
		data.Rows = append(data.Rows, row{r, r.Status(list.Now), v.Link("/messages/" + r.EventID.String())})
	}
	data.Tabs = v.newTabs(form, c.samples.look(v.ctx(), v.Source.Name))
	data.addLinks(form, list)
	return v.render(http.StatusOK, "messages", data)
}

// list reads one page of messages that the person may see.
func (v *view) list(form *filterForm) (outbox.List, error) {
	f := form.filter
	if err := v.readPage(&f); err != nil {
		return outbox.List{}, err
	}
	list, err := v.Source.Inspector.List(v.ctx(), f)
	if err != nil {
		return outbox.List{}, err
	}
	v.Now = list.Now
	seen := list.Records[:0:0]
	for _, r := range list.Records {
		if v.Who.sees(r.TenantID) { // the filter says so already
			seen = append(seen, r)
		}
	}
	list.Records = seen
	return list, nil
}

func (data *messagesView) addLinks(form *filterForm, list outbox.List) {
	pairs := append(form.pairs(), "limit", data.param("limit"))
	paged := data.param("before")+data.param("after") != ""
	if paged {
		data.First = data.Link("/messages", pairs...)
	}
	live := "1"
	if data.Live {
		live = ""
	}
	data.Toggle = data.Link("/messages", append(pairs, "live", live)...)
	if list.Next == 0 {
		return
	}
	cursor := "before"
	if form.Oldest {
		cursor = "after"
	}
	data.Next = data.Link("/messages", append(pairs, cursor, list.Next)...)
}

func (v *view) newTabs(form *filterForm, look snapshot) []tab {
	s := look.stats
	count := map[outbox.Status]int{
		outbox.StatusPending: max(0, s.Pending-s.InFlight-s.Retrying-s.Scheduled), outbox.StatusScheduled: s.Scheduled,
		outbox.StatusInFlight: s.InFlight, outbox.StatusRetrying: s.Retrying, outbox.StatusDead: s.Dead, outbox.StatusDiscarded: s.Discarded,
	}
	tabs := []tab{{Name: v.T("All"), Link: v.tabLink(form, ""), Current: form.Status == ""}}
	for _, status := range outbox.Statuses {
		n, counted := count[status]
		tabs = append(tabs, tab{
			Name: v.T(statusNames[status]), Status: string(status), Link: v.tabLink(form, string(status)),
			Current: form.Status == string(status), Count: n, Counted: counted && look.err == nil, Capped: s.Capped,
		})
	}
	return tabs
}

func (v *view) tabLink(form *filterForm, status string) string {
	other := *form
	other.Status = status
	return v.Link("/messages", append(other.pairs(), "live", v.param("live"))...)
}

// statusNames are what people read.
var statusNames = map[outbox.Status]string{
	outbox.StatusPending: "Pending", outbox.StatusScheduled: "Scheduled", outbox.StatusInFlight: "In flight",
	outbox.StatusRetrying: "Retrying", outbox.StatusPublished: "Published", outbox.StatusDead: "Dead", outbox.StatusDiscarded: "Discarded",
}

// A statusChip shows a status.
type statusChip struct {
	Class, Name string
}

func newStatusChip(v *view, s outbox.Status) statusChip {
	name, ok := statusNames[s]
	if !ok {
		return statusChip{"none", "–"}
	}
	return statusChip{string(s), v.T(name)}
}
