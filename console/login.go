package console

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// A loginView is the login page.
type loginView struct {
	*view
	Next      string
	Name      string
	Failed    string
	Passwords bool // somebody has a password and not a token
}

func (c *Console) loginPage(v *view) {
	if err := v.identify(); err == nil && v.Who != nil {
		v.redirect(c.base + "/")
		return
	}
	v.showLogin(http.StatusOK, "", "", v.r.URL.Query().Get("next"))
}

func (v *view) showLogin(status int, name, failed, next string) {
	data := &loginView{view: v, Next: next, Name: name, Failed: failed}
	for _, u := range v.c.auth.Users {
		data.Passwords = data.Passwords || !u.isToken()
	}
	if err := v.render(status, "login", data); err != nil {
		v.fail(err)
	}
}

// login begins a session. The old one, if there was one, ends: no session id survives a
// change of who it belongs to.
func (c *Console) login(v *view) {
	if err := v.readForm(); err != nil {
		v.fail(err)
		return
	}
	name := strings.TrimSpace(v.param("name"))
	who, err := c.auth.login(v.r, name, strings.TrimSpace(v.param("secret")), time.Now())
	if err != nil {
		c.refuseLogin(v, name, err)
		return
	}
	c.sessions.end(c.sessionID(v.r))
	c.setSession(v.w, v.r, c.sessions.begin(who, time.Now()))
	c.cfg.Log.LogAttrs(v.ctx(), slog.LevelInfo, "logged in", slog.String("actor", who.Name), slog.String("role", string(who.Role)),
		slog.String("from", c.auth.address(v.r)))
	v.redirect(v.local(v.param("next")))
}

func (c *Console) refuseLogin(v *view, name string, err error) {
	status, reason, text := http.StatusUnauthorized, "credentials", "Unknown user, password or token."
	if errors.Is(err, errTooOften) {
		status, reason, text = http.StatusTooManyRequests, "login_limit", "Too many failed logins: wait a minute."
		v.w.Header().Set("Retry-After", "60")
	}
	c.refusals.add(reason)
	c.cfg.Log.LogAttrs(v.ctx(), slog.LevelWarn, "login refused", slog.String("reason", reason), slog.String("actor", plain(name)),
		slog.String("from", c.auth.address(v.r)))
	v.showLogin(status, name, v.T(text), v.param("next"))
}

func (c *Console) logout(v *view) error {
	c.sessions.end(c.sessionID(v.r))
	c.setSession(v.w, v.r, "")
	v.redirect(c.base + "/login")
	return nil
}
