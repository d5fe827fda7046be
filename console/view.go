package console

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-outbox/outbox"
)

// A view is one request: who asks for what, in which language, zone and theme. Its
// exported part is for the templates.
type view struct {
	c       *Console
	w       http.ResponseWriter
	r       *http.Request
	api     bool
	session bool // logged in here, so there is something to log out of

	Who    *Principal
	Source *Source
	Lang   string
	Theme  string // light, dark or auto
	zone   *time.Location
	Screen string // which entry of the navigation is current
	Now    time.Time
	banner *banner // cached for the navigation
}

func (c *Console) newView(w http.ResponseWriter, r *http.Request) *view {
	v := &view{
		c: c, w: w, r: r, Source: &c.cfg.Stores[0], Now: time.Now(),
		api: strings.HasPrefix(strings.TrimPrefix(r.URL.Path, c.base), "/api/"),
	}
	v.Lang, v.Theme, v.zone = preferences(r)
	return v
}

func (v *view) ctx() context.Context { return v.r.Context() }

func (v *view) actor() string {
	if v.Who == nil {
		return ""
	}
	return v.Who.Name
}

// param is a value of the query or the form. A hidden field may be encoded: what HTML
// cannot hold comes back as it was.
func (v *view) param(name string) string {
	if encoded := v.r.Form.Get(name + "_enc"); encoded != "" {
		if text, err := url.QueryUnescape(encoded); err == nil {
			return text
		}
	}
	return v.r.Form.Get(name)
}

// Enc encodes the value of a hidden field.
func (v *view) Enc(s string) string { return url.QueryEscape(s) }

// here is the current page, for coming back to it.
func (v *view) here() string {
	here := v.r.URL.Path
	if v.r.URL.RawQuery != "" {
		here += "?" + v.r.URL.RawQuery
	}
	return here
}

func (v *view) redirect(to string) { http.Redirect(v.w, v.r, to, http.StatusSeeOther) }

// local is where a form may send the browser next: a page of ours.
func (v *view) local(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(u.Path, "//") || strings.ContainsAny(next, "\\\r\n") {
		return v.c.base + "/"
	}
	to := v.c.base + u.EscapedPath()
	if u.RawQuery != "" {
		to += "?" + u.RawQuery
	}
	return to
}

// audited logs a change that a store has recorded.
func (v *view) audited(verb outbox.Verb, messages int, reason string) {
	v.c.cfg.Log.LogAttrs(v.ctx(), slog.LevelInfo, "changed by an operator", slog.String("actor", v.actor()),
		slog.String("table", v.Source.Name), slog.String("verb", string(verb)), slog.Int("count", messages), slog.String("reason", reason))
}

// operator is the table's operator, where there is one.
func (v *view) operator() (outbox.Operator, error) {
	if v.Source.Operator == nil {
		return nil, refused(http.StatusForbidden, "read_only", "This table is read-only.")
	}
	return v.Source.Operator, nil
}

// Link is the address of a page of the console, with a query of pairs. Empty values are
// left out; the table is added where the page is about one.
func (v *view) Link(to string, pairs ...any) string {
	query := make([]string, 0, len(pairs)/2+1)
	add := func(name, value string) {
		if value != "" {
			query = append(query, url.QueryEscape(name)+"="+url.QueryEscape(value))
		}
	}
	given := false
	for i := 0; i+1 < len(pairs); i += 2 {
		name := fmt.Sprint(pairs[i])
		given = given || name == "table"
		add(name, fmt.Sprint(pairs[i+1]))
	}
	if !given && len(v.c.cfg.Stores) > 1 && to != "/" && !strings.HasPrefix(to, "/login") && !strings.HasPrefix(to, "/static") {
		add("table", v.Source.Name)
	}
	if len(query) == 0 {
		return v.c.base + to
	}
	return v.c.base + to + "?" + strings.Join(query, "&")
}

// May reports whether the person may do what needs the role, here.
func (v *view) May(role Role) bool {
	return v.Who != nil && v.Who.Role.allows(role) && !v.c.cfg.ReadOnly && v.Source.Operator != nil
}

// MayAll is May for changes that concern more than the person's tenants.
func (v *view) MayAll(role Role) bool { return v.May(role) && !v.Who.scoped() }

// Tables are the names of all tables.
func (v *view) Tables() []string {
	names := make([]string, len(v.c.cfg.Stores))
	for i, s := range v.c.cfg.Stores {
		names[i] = s.Name
	}
	return names
}

// CanLogOut reports whether there is a session to end.
func (v *view) CanLogOut() bool { return v.session }

// Here is the current page, below the console's path.
func (v *view) Here() string { return v.here() }

// T translates; args are for verbs as in fmt.
func (v *view) T(text string, args ...any) string { return translate(v.Lang, text, args...) }

// N is T for a number, with its singular.
func (v *view) N(n int, one, many string) string {
	if n == 1 {
		return v.T(one, v.Count(n))
	}
	return v.T(many, v.Count(n))
}

// Short is the end of an id: the beginning is a time, and the same for many.
func (v *view) Short(id fmt.Stringer) string {
	text := id.String()
	return "…" + text[max(0, len(text)-8):]
}

// Zone names the time zone.
func (v *view) Zone() string { return v.zone.String() }

// Time is the time in the chosen zone.
func (v *view) Time(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.In(v.zone).Format("2006-01-02 15:04:05")
}

// Stamp is the time for machines.
func (v *view) Stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Ago says how long ago or how soon, in words.
func (v *view) Ago(t time.Time) string {
	switch d := v.Now.Sub(t); {
	case t.IsZero():
		return "–"
	case d >= 0 && d < 2*time.Second:
		return v.T("just now")
	case d < 0:
		return v.T("in %s", v.Age(-d))
	default:
		return v.T("%s ago", v.Age(d))
	}
}

// Age is a duration in its two largest units.
func (v *view) Age(d time.Duration) string {
	unit := func(n time.Duration, name string) string { return strconv.FormatInt(int64(n), 10) + v.T(name) }
	rest := func(n time.Duration, name string) string {
		if n == 0 {
			return ""
		}
		return " " + unit(n, name)
	}
	const day = 24 * time.Hour
	switch {
	case d <= 0:
		return "0" + v.T(" s")
	case d < time.Second:
		return unit(max(d/time.Millisecond, 1), " ms")
	case d < 2*time.Minute && d != time.Minute:
		return unit(d/time.Second, " s")
	case d < time.Hour:
		return unit(d/time.Minute, " min")
	case d < day:
		return unit(d/time.Hour, " h") + rest(d%time.Hour/time.Minute, " min")
	case d < 100*day:
		return unit(d/day, " d") + rest(d%day/time.Hour, " h")
	default:
		return unit(d/day, " d")
	}
}

// Count writes a number with thin separators; capped means "at least".
func (v *view) Count(n int, capped ...bool) string {
	s := group(strconv.Itoa(n))
	if len(capped) > 0 && capped[0] && n >= outbox.CountCap {
		s += "+"
	}
	return s
}

// Total writes a number that no store counted.
func (v *view) Total(n int64) string { return group(strconv.FormatInt(n, 10)) }

// Latency writes how long something takes, to two figures.
func (v *view) Latency(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func group(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Rate is a number per second or minute, short.
func (v *view) Rate(f float64) string {
	switch {
	case f < 0.05:
		return "0"
	case f < 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	default:
		return group(strconv.FormatFloat(f, 'f', 0, 64))
	}
}

// Plain shows text as it is, with control characters made visible.
func (v *view) Plain(s any) string { return plain(fmt.Sprint(s)) }

// plain makes what cannot be seen, or would reorder what can, visible.
func plain(s string) string {
	if strings.IndexFunc(s, hidden) < 0 && strings.ToValidUTF8(s, "") == s {
		return s
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r < 0x20:
			b.WriteRune('\u2400' + r) // the picture of the control character
		default:
			fmt.Fprintf(&b, "‹U+%04X›", r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// render answers with a page.
func (v *view) render(status int, name string, data any) error {
	var body bytes.Buffer
	if err := v.c.pages[name].template.ExecuteTemplate(&body, "layout", data); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	if v.r.Method != http.MethodHead {
		_, _ = body.WriteTo(v.w) // the browser is gone; nobody to tell
	}
	return nil
}

// An errorView is the page of an error.
type errorView struct {
	*view
	Status int
	Reason string
	Text   string
}

func (v *view) errorPage(r *refusal) {
	if r.status == http.StatusTooManyRequests {
		v.w.Header().Set("Retry-After", "60")
	}
	page := &errorView{view: v, Status: r.status, Reason: r.reason, Text: v.T(r.text)}
	if v.render(r.status, "error", page) != nil {
		http.Error(v.w, r.text, r.status)
		return
	}
}

// StatusText names the status of an error.
func (e *errorView) StatusText() string { return http.StatusText(e.Status) }

// Self gives templates the view that a page embeds.
func (v *view) Self() *view { return v }

// Base is the path of the console, without its last slash.
func (v *view) Base() string { return v.c.base }
