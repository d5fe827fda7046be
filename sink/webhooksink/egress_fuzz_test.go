package webhooksink

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"testing"
)

// A URL that is accepted never names a place inside: whatever notation its host is in, a
// resolver that takes it for an address takes it for a public one.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{
		"https://example.com/hook", "https://127.0.0.1/", "https://2130706433/", "https://0x7f.1/", "https://017700000001/", "https://[::1]/",
		"https://[::ffff:10.0.0.1]/", "https://[fe80::1%25eth0]/", "https://localhost./", "https://a.localhost/", "http://1.1.1.1/",
		"https://u:p@example.com/", "https://example.com:22/", "https://169.254.169.254/latest/", "https://①②⑦.0.0.1/", "https:example.com", "//x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := Config{URL: text}
		broken := false
		u := c.validateURL(func(string, string, ...any) { broken = true })
		if broken || u == nil {
			return
		}
		host := u.Hostname()
		if u.Scheme != "https" || u.User != nil || host == "" {
			t.Errorf("%q is accepted", text)
		}
		if ip := net.ParseIP(host); ip != nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || ip.IsMulticast()) {
			t.Errorf("%q leads inside, to %s", text, ip)
		}
		if again, err := url.Parse(u.String()); err != nil || again.Hostname() != host {
			t.Errorf("%q is read as %q, then as another host", text, host)
		}
	})
}

// An address that may be dialled is public, however it is written.
func FuzzEgress(f *testing.F) {
	for _, seed := range []string{"1.1.1.1:443", "127.0.0.1:443", "[::1]:443", "[::ffff:127.0.0.1]:443", "[64:ff9b::7f00:1]:443", "[2002:7f00:1::]:443", "10.0.0.1:1", "x", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		err := egress{}.control("tcp", address, nil)
		if err != nil {
			if !errors.Is(err, ErrEgressDenied) {
				t.Errorf("strange error %v", err)
			}
			return
		}
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			t.Fatalf("%q is dialled and is no address", address)
		}
		if a := to.Addr().Unmap(); !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() {
			t.Errorf("%q is dialled", address)
		}
	})
}
