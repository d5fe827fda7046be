package console

import (
	"net/http"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // so that zones can be chosen where the system has none
)

// zones are offered; a browser's own zone works as well.
var zones = []string{
	"UTC", "Asia/Shanghai", "Asia/Tokyo", "Asia/Singapore", "Asia/Kolkata", "Asia/Dubai",
	"Europe/London", "Europe/Berlin", "Europe/Paris", "Europe/Moscow", "Africa/Nairobi", "Africa/Johannesburg",
	"America/Sao_Paulo", "America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles",
	"Australia/Sydney", "Pacific/Auckland",
}

var themes = []string{"auto", "light", "dark"}

const (
	langCookie  = "outbox_lang"
	themeCookie = "outbox_theme"
	zoneCookie  = "outbox_zone"
)

// preferences are in cookies, so that pages are right without JavaScript.
func preferences(r *http.Request) (lang, theme string, zone *time.Location) {
	lang, theme, zone = accepted(r.Header.Get("Accept-Language")), "auto", time.UTC
	if c, err := r.Cookie(langCookie); err == nil && slices.Contains(languages, c.Value) {
		lang = c.Value
	}
	if c, err := r.Cookie(themeCookie); err == nil && slices.Contains(themes, c.Value) {
		theme = c.Value
	}
	if c, err := r.Cookie(zoneCookie); err == nil {
		if loc, ok := findZone(c.Value); ok {
			zone = loc
		}
	}
	return lang, theme, zone
}

// accepted is the first language of a browser's list that we have.
func accepted(header string) string {
	for tag := range strings.SplitSeq(header, ",") {
		tag, _, _ = strings.Cut(strings.TrimSpace(strings.ToLower(tag)), ";")
		primary, _, _ := strings.Cut(tag, "-")
		if slices.Contains(languages, primary) {
			return primary
		}
	}
	return languages[0]
}

func findZone(name string) (*time.Location, bool) {
	if name == "" || name == "Local" || len(name) > 40 || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_+-") != "" {
		return nil, false
	}
	loc, err := time.LoadLocation(name)
	return loc, err == nil
}

// setPreferences stores what a form chose and goes back to where it was.
func (c *Console) setPreferences(v *view) error {
	set := func(cookie, value string) {
		http.SetCookie(v.w, &http.Cookie{
			Name: cookie, Value: value, Path: c.base + "/", MaxAge: 365 * 24 * 3600,
			HttpOnly: true, Secure: c.secure(v.r), SameSite: http.SameSiteStrictMode,
		})
	}
	if lang := v.param("lang"); slices.Contains(languages, lang) {
		set(langCookie, lang)
	}
	if theme := v.param("theme"); slices.Contains(themes, theme) {
		set(themeCookie, theme)
	}
	if _, ok := findZone(v.param("zone")); ok {
		set(zoneCookie, v.param("zone"))
	}
	v.redirect(v.local(v.param("next")))
	return nil
}
