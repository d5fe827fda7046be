package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-outbox/outbox"
)

// A Role is what somebody may do. Each includes the ones before it.
type Role string

const (
	// RoleViewer may look at everything but payloads.
	RoleViewer Role = "viewer"
	// RoleOperator may change messages, keys and routes, and replay in bulk.
	RoleOperator Role = "operator"
	// RoleAdmin may also see payloads, discard in bulk and end leases.
	RoleAdmin Role = "admin"
)

func (r Role) rank() int { return slices.Index([]Role{RoleViewer, RoleOperator, RoleAdmin}, r) + 1 }

// allows reports whether r includes need.
func (r Role) allows(need Role) bool { return r.rank() >= need.rank() && r.rank() > 0 }

// A Principal is somebody who was let in.
type Principal struct {
	// Name is recorded as the actor of every change.
	Name string
	Role Role
	// Tenants limits what is seen and changed to messages of these tenants; empty
	// means all. Somebody with such a limit changes no routes, leases or whole
	// tables and does not see the audit log. Counts of a table are not limited.
	Tenants []string
}

func (p *Principal) scoped() bool { return len(p.Tenants) > 0 }

func (p *Principal) sees(tenant string) bool {
	return !p.scoped() || slices.Contains(p.Tenants, tenant)
}

// Auth says who may use a console. At least one way in is required; they are tried in
// the order of the fields.
type Auth struct {
	// Request is the application's own authentication: it returns nil for a request
	// that it does not know.
	Request func(*http.Request) *Principal
	// Proxy trusts a header that an authenticating proxy sets.
	Proxy *Proxy
	// Users come in with a token or a password: on the login page, or with an
	// Authorization header (Bearer or Basic).
	Users []User
	// Open lets everybody in with this role, unasked. It is for loopback listeners
	// and for handlers that are behind a login already.
	Open Role
}

// A Proxy is an authenticating proxy in front of the console.
type Proxy struct {
	// Header holds the name of the user, such as X-Forwarded-User. Required.
	Header string
	// From are the addresses of the proxy. The header of any other peer is ignored.
	// Required.
	From []netip.Prefix
	// Users have a role of their own; their Secret is not used. Everybody else has
	// Role, or stays out when it is empty.
	Users []User
	Role  Role
}

type authenticator struct {
	Auth
	fails *limiter
	known *knownPasswords
}

func newAuthenticator(a Auth) (*authenticator, error) {
	var errs []error
	bad := func(field, text string) { errs = append(errs, outbox.ErrInvalidConfig.With(field, text)) }
	if a.Request == nil && a.Proxy == nil && len(a.Users) == 0 && a.Open == "" {
		bad("Auth", "is required: who may come in?")
	}
	if a.Open != "" && a.Open.rank() == 0 {
		bad("Auth.Open", "must be viewer, operator or admin")
	}
	if p := a.Proxy; p != nil {
		if p.Header == "" || len(p.From) == 0 {
			bad("Auth.Proxy", "needs a Header and the addresses of the proxy in From")
		}
		if p.Role != "" && p.Role.rank() == 0 {
			bad("Auth.Proxy.Role", "must be viewer, operator or admin")
		}
		errs = append(errs, checkUsers("Auth.Proxy.Users", p.Users, false))
	}
	errs = append(errs, checkUsers("Auth.Users", a.Users, true))
	return &authenticator{Auth: a, fails: newLimiter(), known: newKnownPasswords()}, errors.Join(errs...)
}

var (
	errUnknown  = errors.New("unknown user, password or token")
	errTooOften = errors.New("too many failed logins: wait a minute")
)

// request authenticates by what the request carries besides a session. It returns nil
// without an error when there is nothing.
func (a *authenticator) request(r *http.Request, now time.Time) (*Principal, error) {
	if a.Request != nil {
		if p := a.Request(r); p != nil {
			return p, nil
		}
	}
	if p := a.proxied(r); p != nil {
		return p, nil
	}
	if name, secret, ok := r.BasicAuth(); ok && len(a.Users) > 0 {
		return a.login(r, name, secret, now)
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && len(a.Users) > 0 {
		return a.login(r, "", token, now)
	}
	return nil, nil
}

// open is who comes in unasked, or nil.
func (a *authenticator) open() *Principal {
	if a.Open == "" {
		return nil
	}
	return &Principal{Name: "anonymous", Role: a.Open}
}

// login checks a secret, and counts failures by address.
func (a *authenticator) login(r *http.Request, name, secret string, now time.Time) (*Principal, error) {
	from := a.address(r)
	if !a.fails.allow(from, now) {
		return nil, errTooOften
	}
	u := a.find(name, secret, now)
	if u == nil {
		a.fails.fail(from, now)
		return nil, errUnknown
	}
	return &Principal{Name: u.Name, Role: u.Role, Tenants: u.Tenants}, nil
}

// find looks at every token and at the password of the named user. How long it takes
// says nothing about which users exist.
func (a *authenticator) find(name, secret string, now time.Time) *User {
	var found *User
	checked := false
	for i := range a.Users {
		u := &a.Users[i]
		switch {
		case name != "" && u.Name != name:
		case u.isToken():
			if u.matchesToken(secret) {
				found = u
			}
		case name != "" && !checked:
			checked = true
			if a.known.check(u, secret, now) {
				found = u
			}
		}
	}
	if name != "" && !checked && found == nil {
		stranger.matchesPassword(secret)
	}
	return found
}

// proxied trusts the proxy's header, from the proxy only.
func (a *authenticator) proxied(r *http.Request) *Principal {
	p := a.Proxy
	if p == nil || !p.trusts(r) {
		return nil
	}
	values := r.Header.Values(p.Header)
	if len(values) != 1 || values[0] == "" { // two of them: somebody sneaked one in
		return nil
	}
	name := values[0]
	for _, u := range p.Users {
		if u.Name == name {
			return &Principal{Name: name, Role: u.Role, Tenants: u.Tenants}
		}
	}
	if p.Role == "" {
		return nil
	}
	return &Principal{Name: name, Role: p.Role}
}

func (p *Proxy) trusts(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(p.From, func(n netip.Prefix) bool { return n.Contains(peer.Addr().Unmap()) })
}

// address is whose failures are counted together: the peer, or what a trusted proxy
// says that its peer is.
func (a *authenticator) address(r *http.Request) string {
	if a.Proxy != nil && a.Proxy.trusts(r) {
		hops := strings.Split(r.Header.Get("X-Forwarded-For"), ",")
		if last, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1])); err == nil {
			return last.String()
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// knownPasswords spares a client that sends Basic credentials with every request the
// slow hash each time. It keeps no passwords: only a keyed digest, for a few minutes.
type knownPasswords struct {
	key []byte

	mu    sync.Mutex
	until map[[32]byte]time.Time
}

const (
	maxKnown   = 64
	knownFor   = 5 * time.Minute
	maxSecrets = 1024 // bytes of a token or password that are looked at
)

func newKnownPasswords() *knownPasswords {
	key := make([]byte, 32)
	rand.Read(key)
	return &knownPasswords{key: key, until: make(map[[32]byte]time.Time)}
}

func (k *knownPasswords) check(u *User, password string, now time.Time) bool {
	mac := hmac.New(sha256.New, k.key)
	fmt.Fprintf(mac, "%s\x00%s\x00%s", u.Name, u.Secret, password)
	digest := [32]byte(mac.Sum(nil))

	k.mu.Lock()
	known := k.until[digest].After(now)
	k.mu.Unlock()
	if known {
		return true
	}
	if !u.matchesPassword(password) {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.until) >= maxKnown {
		clear(k.until)
	}
	k.until[digest] = now.Add(knownFor)
	return true
}

// String is the name of the role.
func (r Role) String() string { return string(r) }
