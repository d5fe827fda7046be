package webhooksink

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-outbox/outbox"
)

// validate returns the endpoint's URL. Its errors never show more of it than the
// host: the rest may hold a token.
func (c *Config) validate() (*url.URL, error) {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, outbox.ErrInvalidConfig.With(field, fmt.Sprintf(format, args...)))
	}
	u := c.validateURL(bad)
	if len(c.Secrets) == 0 {
		bad("secrets", "at least one is required: make one with webhook.NewSecret")
	}
	for i, s := range c.Secrets {
		if s.IsZero() {
			bad("secrets", "number %d is empty", i+1)
		}
	}
	if c.Timeout < 0 {
		bad("timeout", "is negative")
	}
	for _, p := range c.Allow {
		if !p.IsValid() {
			bad("allow", "holds a network that is not valid")
		}
	}
	return u, errors.Join(errs...)
}

func (c *Config) validateURL(bad func(field, format string, args ...any)) *url.URL {
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		bad("url", "is required")
		return nil
	case err != nil, u.Opaque != "", u.Hostname() == "":
		bad("url", "cannot be read: want https://HOST/PATH")
		return nil
	}
	host := u.Hostname()
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		bad("url", "the scheme is %q, want https", u.Scheme)
	case u.Scheme == "http" && len(c.Allow) == 0:
		bad("url", "http:// to %s is refused: use https, or allow the network it is in", host)
	}
	if u.User != nil {
		bad("url", "must not hold a user or password: requests are signed")
	}
	if u.Fragment != "" {
		bad("url", "must not hold a fragment")
	}
	if port := portOf(u); port != 443 && port != 80 && !slices.Contains(c.Ports, port) {
		bad("url", "port %s is refused: use 443, or allow the port", u.Port())
	}
	if err := c.checkHost(host, u.Scheme == "http"); err != nil {
		bad("url", "%v", err)
	}
	return u
}

// portOf is the port of a URL, or 0 when it has an impossible one.
func portOf(u *url.URL) uint16 {
	switch {
	case u.Port() != "":
		n, _ := strconv.ParseUint(u.Port(), 10, 16)
		return uint16(n)
	case u.Scheme == "http":
		return 80
	}
	return 443
}

// checkHost refuses at once what every dial would refuse.
func (c *Config) checkHost(host string, plain bool) error {
	guard := egress{allow: c.Allow, plain: plain}
	if addr, err := netip.ParseAddr(host); err == nil {
		return guard.check(addr)
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if last := name[strings.LastIndexByte(name, '.')+1:]; isNumber(last) {
		return fmt.Errorf("host %q looks like an address in another notation: write it as a dotted quad", host)
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		v4 := guard.check(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
		if v4 != nil && guard.check(netip.IPv6Loopback()) != nil {
			return v4
		}
	}
	return nil
}

// isNumber reports whether resolvers may take a label for a part of an address:
// 2130706433, 0x7f000001, 0177.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}
