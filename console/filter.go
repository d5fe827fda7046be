package console

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

const (
	maxField = 512
	// maxPast is how far back a filter may look.
	maxPast = 5 * 366 * 24 * time.Hour
)

// A filterForm is a filter as it stands in the address of a page.
type filterForm struct {
	Status, Topic, Key, Tenant, Reason, Error, Route string
	Since, Until                                     string
	Oldest                                           bool

	filter outbox.Filter
}

// pairs is the form as the query of a link.
func (f *filterForm) pairs() []any {
	order := ""
	if f.Oldest {
		order = "oldest"
	}
	return []any{
		"status", f.Status, "topic", f.Topic, "key", f.Key, "tenant", f.Tenant, "dead_reason", f.Reason, "error", f.Error,
		"route", f.Route, "since", f.Since, "until", f.Until, "order", order,
	}
}

// Narrow reports whether anything but the status is chosen.
func (f *filterForm) Narrow() bool {
	return f.Topic+f.Key+f.Tenant+f.Reason+f.Error+f.Route+f.Since+f.Until != ""
}

// readFilter reads and checks a filter, and confines it to the person's tenants.
func (v *view) readFilter() (*filterForm, error) {
	f := &filterForm{
		Status: v.param("status"), Topic: strings.TrimSpace(v.param("topic")), Key: v.param("key"),
		Tenant: v.param("tenant"), Reason: v.param("dead_reason"), Error: v.param("error"), Route: v.param("route"),
		Since: strings.TrimSpace(v.param("since")), Until: strings.TrimSpace(v.param("until")),
		Oldest: v.param("order") == "oldest",
	}
	for _, field := range []string{f.Topic, f.Key, f.Tenant, f.Reason, f.Error, f.Route} {
		if len(field) > maxField {
			return nil, refused(http.StatusBadRequest, "filter", "A field of the filter is too long.")
		}
	}
	if f.Status != "" && !slices.Contains(outbox.Statuses, outbox.Status(f.Status)) {
		return nil, refused(http.StatusBadRequest, "filter", "There is no such status.")
	}
	since, err := v.parseTime(f.Since)
	if err != nil {
		return nil, err
	}
	until, err := v.parseTime(f.Until)
	if err != nil {
		return nil, err
	}
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return nil, refused(http.StatusBadRequest, "filter", "The begin of the time window must be before its end.")
	}
	if f.Tenant, err = v.confine(f.Tenant); err != nil {
		return nil, err
	}
	f.filter = outbox.Filter{
		Status: outbox.Status(f.Status), Topic: f.Topic, Key: f.Key, TenantID: f.Tenant, Reason: f.Reason,
		Error: f.Error, Route: f.Route, Since: since, Until: until, OldestFirst: f.Oldest,
	}
	return f, nil
}

// confine returns the tenant that a filter must have for this person.
func (v *view) confine(tenant string) (string, error) {
	switch {
	case !v.Who.scoped():
		return tenant, nil
	case tenant == "":
		return v.Who.Tenants[0], nil
	case !v.Who.sees(tenant):
		return "", errForeign
	}
	return tenant, nil
}

// errForeign answers for messages of other tenants and for those that do not exist
// alike, so that nobody learns which ids there are.
var errForeign = refused(http.StatusForbidden, "tenant", "That is not of your tenants.")

// readPage reads the limits of a page.
func (v *view) readPage(f *outbox.Filter) error {
	limit, err := v.number("limit", 1, outbox.MaxPage)
	if err != nil {
		return err
	}
	f.Limit = int(limit)
	if f.Before, err = v.number("before", 1, 1<<62); err != nil {
		return err
	}
	f.After, err = v.number("after", 0, 1<<62)
	return err
}

// number reads a whole number; one that is not given is 0.
func (v *view) number(name string, least, most int64) (int64, error) {
	text := v.param(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, refused(http.StatusBadRequest, "number", "A number is out of range.")
	}
	return n, nil
}

// parseTime reads a time as a person writes it: RFC 3339, a form's local time in the
// chosen zone, or how long ago, such as 90m.
func (v *view) parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if err != nil {
			t, err = time.ParseInLocation(layout, text, v.zone)
		}
	}
	if err != nil {
		if ago, durationErr := time.ParseDuration(text); durationErr == nil && ago >= 0 {
			t, err = time.Now().Add(-ago), nil
		}
	}
	if err != nil {
		return time.Time{}, refused(http.StatusBadRequest, "time", "A time cannot be read: write 2006-01-02T15:04, or how long ago, such as 90m.")
	}
	if time.Since(t) > maxPast || time.Until(t) > maxPast {
		return time.Time{}, refused(http.StatusBadRequest, "time", "A time is too far away.")
	}
	return t, nil
}

// readID reads the id in the path.
func (v *view) readID() (uuid.UUID, error) {
	id, err := uuid.Parse(v.r.PathValue("id"))
	if err != nil || len(v.r.PathValue("id")) != 36 {
		return uuid.Nil, refused(http.StatusNotFound, "path", "There is no such page.")
	}
	return id, nil
}

// find returns a message if the person may see it.
func (v *view) find(id uuid.UUID) (*outbox.Record, error) {
	record, err := v.Source.Inspector.Get(v.ctx(), id)
	if v.Who.scoped() && (err != nil && describe(err).status == http.StatusNotFound || err == nil && !v.Who.sees(record.TenantID)) {
		return nil, errForeign
	}
	return record, err
}
