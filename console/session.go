package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"
)

const (
	maxSessions = 1000
	// rotateAfter is how old the id of a session gets before it is replaced, and
	// graceAfter how long the old one still works for requests that are under way.
	rotateAfter = 15 * time.Minute
	graceAfter  = 30 * time.Second
)

// sessions are who is logged in. Ids are kept hashed, so that a memory dump holds none
// that works.
type sessions struct {
	idle, lifetime time.Duration

	mu   sync.Mutex
	byID map[[32]byte]*session
}

type session struct {
	who     *Principal
	began   time.Time
	seen    time.Time
	rotated time.Time
	ends    time.Time // of an id that was replaced
}

func newSessions(idle, lifetime time.Duration) *sessions {
	return &sessions{idle: idle, lifetime: lifetime, byID: make(map[[32]byte]*session)}
}

// begin makes a session and returns its id. Every login gets a new one.
func (s *sessions) begin(who *Principal, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evict(now)
	return s.add(&session{who: who, began: now, seen: now, rotated: now})
}

func (s *sessions) add(one *session) string {
	random := make([]byte, 32)
	rand.Read(random)
	id := base64.RawURLEncoding.EncodeToString(random)
	s.byID[sha256.Sum256([]byte(id))] = one
	return id
}

// find returns who a session belongs to, and its new id when it is time for one. Only
// what a person does counts as activity: a page that refreshes itself does not keep a
// forgotten session alive.
func (s *sessions) find(id string, now time.Time, active bool) (who *Principal, renewed string) {
	if id == "" || len(id) > 100 {
		return nil, ""
	}
	hash := sha256.Sum256([]byte(id))
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byID[hash]
	if one == nil {
		return nil, ""
	}
	if s.expired(one, now) {
		delete(s.byID, hash)
		return nil, ""
	}
	if active {
		one.seen = now
	}
	if one.ends.IsZero() && now.Sub(one.rotated) > rotateAfter {
		next := *one
		next.rotated = now
		one.ends = now.Add(graceAfter)
		renewed = s.add(&next)
	}
	return one.who, renewed
}

func (s *sessions) expired(one *session, now time.Time) bool {
	return now.Sub(one.seen) > s.idle || now.Sub(one.began) > s.lifetime || !one.ends.IsZero() && now.After(one.ends)
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, sha256.Sum256([]byte(id)))
}

// evict makes room: what has expired goes, and if that is not enough, who was seen
// longest ago.
func (s *sessions) evict(now time.Time) {
	var oldest [32]byte
	var seen time.Time
	for id, one := range s.byID {
		if s.expired(one, now) {
			delete(s.byID, id)
		} else if seen.IsZero() || one.seen.Before(seen) {
			oldest, seen = id, one.seen
		}
	}
	if len(s.byID) >= maxSessions {
		delete(s.byID, oldest)
	}
}

// cookieName has the prefix that makes browsers insist on a secure origin and the whole
// host, where there is one.
func (c *Console) cookieName(r *http.Request) string {
	if c.secure(r) {
		return "__Host-outbox"
	}
	return "outbox_session"
}

// secure reports whether the browser uses https.
func (c *Console) secure(r *http.Request) bool { return r.TLS != nil || c.cfg.Secure }

func (c *Console) setSession(w http.ResponseWriter, r *http.Request, id string) {
	cookie := &http.Cookie{
		Name: c.cookieName(r), Value: id, Path: "/",
		HttpOnly: true, Secure: c.secure(r), SameSite: http.SameSiteStrictMode,
	}
	if id == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

func (c *Console) sessionID(r *http.Request) string {
	cookie, err := r.Cookie(c.cookieName(r))
	if err != nil {
		return ""
	}
	return cookie.Value
}
