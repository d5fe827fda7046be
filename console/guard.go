package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-outbox/outbox"
)

// maxBody bounds what a request may send.
const maxBody = 1 << 20

// csp allows what the console brings itself and nothing else: no inline script or style,
// no frames, no forms to elsewhere.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP serves the console.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.entry.ServeHTTP(w, r) }

// viewed makes a handler of what serves a view.
func (c *Console) viewed(serve func(*view)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(c.newView(w, r)) })
}

// guard lets a request in, or refuses it, and catches what goes wrong inside.
func (c *Console) guard(v *view) {
	c.harden(v.w.Header(), v.r)
	defer v.rescue()
	if err := c.admit(v.r); err != nil {
		v.fail(err)
		return
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxBody)
	inner := v.r.Clone(v.ctx())
	inner.URL.Path = strings.TrimPrefix(v.r.URL.Path, c.base)
	if inner.URL.Path == "" {
		http.Redirect(v.w, v.r, c.base+"/", http.StatusPermanentRedirect)
		return
	}
	inner.URL.RawPath = ""
	c.mux.ServeHTTP(v.w, inner)
}

func (c *Console) harden(h http.Header, r *http.Request) {
	h.Set("Content-Security-Policy", csp)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Cache-Control", "no-store")
	if c.secure(r) {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// admit refuses what no handler should see.
func (c *Console) admit(r *http.Request) error {
	if !c.knowsHost(r.Host) {
		return refused(http.StatusMisdirectedRequest, "host", "This console does not answer to that host name.")
	}
	// A path that is not in its plain form is never one of our links.
	p := r.URL.Path
	if !strings.HasPrefix(p, c.base+"/") && p != c.base || path.Clean(p) != strings.TrimSuffix(p, "/") && p != "/" ||
		strings.ContainsAny(p, "\\\x00") || strings.Contains(strings.ToLower(r.URL.RawPath), "%2f") {
		return refused(http.StatusNotFound, "path", "There is no such page.")
	}
	if err := c.origin.Check(r); err != nil {
		return refused(http.StatusForbidden, "cross_origin", "The request comes from another site.")
	}
	return nil
}

func (c *Console) knowsHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	return slices.ContainsFunc(c.cfg.Hosts, func(h string) bool { return h == "*" || strings.EqualFold(h, host) })
}

// An endpoint is a page or an entry of the API that the given role may use.
type endpoint struct {
	need  Role
	serve func(*view) error
}

// handle adds an endpoint.
func (c *Console) handle(mux *http.ServeMux, pattern string, need Role, serve func(*view) error) {
	mux.Handle(pattern, c.viewed(endpoint{need, serve}.view))
}

func (e endpoint) view(v *view) {
	ctx, cancel := context.WithTimeoutCause(v.ctx(), v.c.cfg.Timeout, errSlow)
	defer cancel()
	v.r = v.r.WithContext(ctx)
	err := v.enter(e.need)
	if err == nil {
		err = e.serve(v)
	}
	if err != nil {
		v.fail(err)
	}
}

// notFound answers for everything that is not there.
func (v *view) notFound() { v.fail(refused(http.StatusNotFound, "path", "There is no such page.")) }

var errSlow = errors.New("the database did not answer in time")

// enter authenticates, authorises, and reads the form.
func (v *view) enter(need Role) error {
	if err := v.identify(); err != nil {
		return err
	}
	switch {
	case v.Who == nil:
		return refused(http.StatusUnauthorized, "unauthenticated", "Log in first.")
	case !v.Who.Role.allows(need):
		return refused(http.StatusForbidden, "role", "Your role does not allow that.")
	case v.c.cfg.ReadOnly && need != RoleViewer:
		return refused(http.StatusForbidden, "read_only", "This console is read-only.")
	}
	return v.readForm()
}

// refreshHeader marks what the console's script asks for by itself.
const refreshHeader = "X-Outbox-Refresh"

// identify finds out who it is: by what the request carries, by its session, or anybody
// where the console is open.
func (v *view) identify() error {
	now := time.Now()
	who, err := v.c.auth.request(v.r, now)
	switch {
	case errors.Is(err, errTooOften):
		return refused(http.StatusTooManyRequests, "login_limit", "Too many failed logins: wait a minute.")
	case err != nil:
		return refused(http.StatusUnauthorized, "credentials", "Unknown user, password or token.")
	case who != nil:
		v.Who = who
		return nil
	}
	active := v.r.Header.Get(refreshHeader) == "" && v.r.URL.Path != "/events"
	who, renewed := v.c.sessions.find(v.c.sessionID(v.r), now, active)
	if renewed != "" {
		v.c.setSession(v.w, v.r, renewed)
	}
	v.session = who != nil
	if who == nil {
		who = v.c.auth.open()
	}
	v.Who = who
	return nil
}

// readForm parses what was sent and finds the table that it is about.
func (v *view) readForm() error {
	if v.r.Method == http.MethodPost && !v.api {
		if t, _, _ := strings.Cut(v.r.Header.Get("Content-Type"), ";"); t != "application/x-www-form-urlencoded" {
			return refused(http.StatusUnsupportedMediaType, "content_type", "Send a form.")
		}
	}
	if err := v.r.ParseForm(); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return refused(http.StatusRequestEntityTooLarge, "size", "The request is too large.")
		}
		return refused(http.StatusBadRequest, "form", "The request cannot be read.")
	}
	source, ok := v.c.source(v.r.Form.Get("table"))
	if !ok {
		return refused(http.StatusNotFound, "table", "There is no such table.")
	}
	v.Source = source
	return nil
}

// A refusal is an error with a status that a person may read.
type refusal struct {
	status int
	reason string // a constant: it is counted
	text   string
}

func (r *refusal) Error() string { return r.text }

func refused(status int, reason, text string) error { return &refusal{status, reason, text} }

// describe turns any error into what a person may read of it. Text of drivers stays in
// the log: it names addresses and users.
func describe(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &refusal{http.StatusRequestEntityTooLarge, "size", "The request is too large."}
	}
	known := func(status int, reason string) *refusal {
		return &refusal{status, reason, outbox.SanitizeText(err.Error(), nil, 500)}
	}
	switch {
	case errors.Is(err, outbox.ErrNotFound):
		return known(http.StatusNotFound, "not_found")
	case errors.Is(err, outbox.ErrNotApplicable):
		return known(http.StatusConflict, "not_applicable")
	case errors.Is(err, outbox.ErrDrift):
		return known(http.StatusConflict, "drift")
	case errors.Is(err, outbox.ErrLeaseHeld):
		return known(http.StatusConflict, "driven_elsewhere")
	case errors.Is(err, outbox.ErrInvalidConfig):
		return known(http.StatusBadRequest, "invalid")
	case errors.Is(err, outbox.ErrSchema):
		return known(http.StatusServiceUnavailable, "schema")
	case errors.Is(err, errSlow), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &refusal{http.StatusServiceUnavailable, "timeout", "The database did not answer in time."}
	}
	return &refusal{http.StatusInternalServerError, "internal", "Something went wrong. The log says more."}
}

// fail answers with an error and takes note of it.
func (v *view) fail(err error) {
	r := describe(err)
	v.c.refusals.add(r.reason)
	level := slog.LevelWarn
	switch {
	case errors.Is(v.ctx().Err(), context.Canceled), v.sentToLogin(r):
		level = slog.LevelDebug // the browser has gone elsewhere, or is sent there
	case r.status >= 500:
		level = slog.LevelError
	}
	v.c.cfg.Log.LogAttrs(v.ctx(), level, "request refused", slog.Int("status", r.status), slog.String("reason", r.reason),
		slog.String("method", v.r.Method), slog.String("path", plain(v.r.URL.Path)), slog.String("actor", v.actor()),
		slog.String("from", v.c.auth.address(v.r)), slog.String("err", outbox.SanitizeText(err.Error(), nil, 0)))
	switch {
	case v.api:
		v.apiError(r)
	case v.sentToLogin(r):
		v.redirect(v.Link("/login", "next", v.here()))
	default:
		v.errorPage(r)
	}
}

// sentToLogin: somebody without a session opens a page.
func (v *view) sentToLogin(r *refusal) bool {
	return r.reason == "unauthenticated" && v.r.Method == http.MethodGet && !v.api
}

// rescue turns a panic into a page. Its stack goes to the log only.
func (v *view) rescue() {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	v.c.cfg.Log.LogAttrs(v.ctx(), slog.LevelError, "panic in the console",
		slog.String("panic", fmt.Sprint(cause)), slog.String("stack", string(debug.Stack())))
	v.fail(refused(http.StatusInternalServerError, "panic", "Something went wrong. The log says more."))
}
