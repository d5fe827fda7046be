package webhooksink

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/webhook"
)

func TestOnlyPublicAddressesMayBeSentTo(t *testing.T) {
	tests := []struct {
		addr   string
		public bool
	}{
		{"8.8.8.8", true},
		{"1.1.1.1", true},
		{"192.0.1.1", true},
		{"172.15.255.255", true},
		{"172.32.0.1", true},
		{"100.63.255.255", true},
		{"100.128.0.1", true},
		{"2606:4700:4700::1111", true},
		{"2a00:1450::1", true},

		{"127.0.0.1", false},
		{"127.255.255.254", false},
		{"0.0.0.0", false},
		{"0.1.2.3", false},
		{"10.0.0.1", false},
		{"172.16.0.1", false},
		{"172.31.255.255", false},
		{"192.168.1.1", false},
		{"100.64.0.1", false},
		{"100.100.100.200", false}, // metadata
		{"169.254.169.254", false}, // metadata
		{"168.63.129.16", false},   // metadata
		{"192.0.0.192", false},     // metadata
		{"192.0.2.1", false},
		{"198.18.0.1", false},
		{"198.51.100.1", false},
		{"203.0.113.1", false},
		{"224.0.0.1", false},
		{"239.255.255.255", false},
		{"240.0.0.1", false},
		{"255.255.255.255", false},

		{"::", false},
		{"::1", false},
		{"::7f00:1", false}, // 127.0.0.1, IPv4-compatible
		{"::ffff:127.0.0.1", false},
		{"::ffff:169.254.169.254", false},
		{"::ffff:8.8.8.8", false},
		{"64:ff9b::7f00:1", false},
		{"64:ff9b:1::1", false},
		{"100::1", false},
		{"2001::1", false},
		{"2001:db8::1", false},
		{"2002:7f00:1::", false},
		{"3fff::1", false},
		{"4000::1", false},
		{"fc00::1", false},
		{"fd00:ec2::254", false}, // metadata
		{"fe80::1", false},
		{"fe80::1%eth0", false},
		{"fec0::1", false},
		{"ff02::1", false},
	}
	for _, tt := range tests {
		t.Run(tt.addr, func(t *testing.T) {
			addr := netip.MustParseAddr(tt.addr)
			err := egress{}.check(addr)
			if got := err == nil; got != tt.public {
				t.Errorf("public: %v, want %v (%v)", got, tt.public, err)
			}
			if err != nil && !errors.Is(err, ErrEgressDenied) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestTheAllowListOpensItsNetworksOnly(t *testing.T) {
	guard := egress{allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32")}}
	for addr, want := range map[string]bool{
		"10.1.2.3": true, "10.2.0.1": false, "fd00:1::1": true, "fd00:2::1": false, "::ffff:10.1.2.3": false, "8.8.8.8": true,
	} {
		if got := guard.check(netip.MustParseAddr(addr)) == nil; got != want {
			t.Errorf("%s: allowed %v, want %v", addr, got, want)
		}
	}
	guard.plain = true
	for addr, want := range map[string]bool{"10.1.2.3": true, "8.8.8.8": false} {
		if got := guard.check(netip.MustParseAddr(addr)) == nil; got != want {
			t.Errorf("http to %s: allowed %v, want %v", addr, got, want)
		}
	}
}

func TestNewRefusesWhatNoDialWouldReach(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	tests := []struct {
		name, url string
		allow     []netip.Prefix
		want      string // a part of the error, "" for none
	}{
		{"public name", "https://hooks.example.com/x?token=canary", nil, ""},
		{"public address", "https://8.8.8.8/", nil, ""},
		{"public IPv6 address", "https://[2606:4700::1]/", nil, ""},
		{"port 80", "https://hooks.example.com:80/", nil, ""},
		{"allowed http", "http://127.0.0.1/", loopback, ""},
		{"allowed localhost", "https://localhost/", loopback, ""},

		{"nothing", "", nil, "is required"},
		{"no URL", "https://%zz/canary", nil, "cannot be read"},
		{"no host", "https:///canary", nil, "cannot be read"},
		{"opaque", "https:canary", nil, "cannot be read"},
		{"another scheme", "ftp://example.com/canary", nil, `the scheme is "ftp"`},
		{"file", "file:///etc/passwd", nil, "cannot be read"},
		{"http", "http://example.com/canary", nil, "http:// to example.com is refused"},
		{"http elsewhere", "http://8.8.8.8/", loopback, "whose network is not allowed"},
		{"user", "https://canary:canary@example.com/", nil, "must not hold a user"},
		{"fragment", "https://example.com/#canary", nil, "must not hold a fragment"},
		{"port", "https://example.com:8443/", nil, "port 8443 is refused"},
		{"impossible port", "https://example.com:99999/", nil, "refused"},
		{"private", "https://10.0.0.1/", nil, "is private"},
		{"loopback", "https://127.0.0.1/", nil, "is loopback"},
		{"metadata", "https://169.254.169.254/latest", nil, "link-local"},
		{"mapped metadata", "https://[::ffff:169.254.169.254]/", nil, "IPv4 address in IPv6 form"},
		{"localhost", "https://localhost/", nil, "is loopback"},
		{"a name below localhost", "https://a.LOCALHOST./", nil, "is loopback"},
		{"hexadecimal", "https://0x7f000001/", nil, "another notation"},
		{"decimal", "https://2130706433/", nil, "another notation"},
		{"octal", "https://0177.0.0.1/", nil, "another notation"},
		{"short", "https://127.1/", nil, "another notation"},
		{"mixed", "https://127.0.0.0x1/", nil, "another notation"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(Config{URL: tt.url, Secrets: []webhook.Secret{webhook.NewSecret()}, Allow: tt.allow})
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v", err)
			case tt.want != "" && (!errors.Is(err, outbox.ErrInvalidConfig) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q in it", err, tt.want)
			case err != nil && strings.Contains(err.Error(), "canary"):
				t.Errorf("the error shows too much: %v", err)
			}
		})
	}
}

func TestNewReportsEveryMistake(t *testing.T) {
	_, err := New(Config{URL: "ftp://u@10.0.0.1:21/", Secrets: []webhook.Secret{{}}, Timeout: -1, Allow: []netip.Prefix{{}}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"scheme", "user", "port 21", "is private", "number 1 is empty", "timeout", "allow"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}

func TestTheTransportTrustsNothingItNeedNot(t *testing.T) {
	sink, err := New(Config{URL: "https://example.com", Secrets: []webhook.Secret{webhook.NewSecret()}})
	if err != nil {
		t.Fatal(err)
	}
	tr := sink.transport
	if tr.Proxy != nil {
		t.Error("it uses proxies, which would hide the address from the guard")
	}
	if tr.TLSClientConfig.MinVersion < tls.VersionTLS12 || tr.TLSClientConfig.InsecureSkipVerify {
		t.Error("it accepts old or unverified TLS")
	}
	if !tr.DisableCompression || tr.MaxResponseHeaderBytes == 0 {
		t.Error("it unpacks answers, or reads headers without end")
	}
}

// DNS rebinding: the name was harmless when it was configured, and at the first dial.
func TestANameThatMovesIntoThePrivateNetworkIsDeniedAtTheDial(t *testing.T) {
	var reached atomic.Int32
	private, public := samePort(t, "127.0.0.2", "127.0.0.1")
	serve(t, private, func(w http.ResponseWriter, _ *http.Request) { reached.Add(1) })
	serve(t, public, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close") // so that the name is resolved again
	})
	port := public.Addr().(*net.TCPAddr).AddrPort().Port()
	sink, err := New(Config{
		URL: fmt.Sprintf("http://hooks.example.com:%d", port), Secrets: []webhook.Secret{webhook.NewSecret()},
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Ports: []uint16{port},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	dns := newDNS(t)
	sink.pool.dialer.Resolver = dns.resolver()
	msg := outbox.DispatchedMessage{Meta: outbox.Meta{Topic: "t", EventID: uuid.New()}, Payload: []byte("{}")}

	dns.answer([4]byte{127, 0, 0, 1})
	if err := sink.Dispatch(t.Context(), msg); err != nil {
		t.Fatalf("before it moved: %v", err)
	}
	dns.answer([4]byte{127, 0, 0, 2})
	err = sink.Dispatch(t.Context(), msg)

	if !errors.Is(err, ErrEgressDenied) || !outbox.IsPermanent(err) || outbox.CodeOf(err) != "OUTBOX_EGRESS_DENIED" {
		t.Errorf("got %v", err)
	}
	if want := "127.0.0.2 is loopback; allow its network to send there"; err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want %q in it", err, want)
	}
	if reached.Load() > 0 {
		t.Error("the private server was reached")
	}
}

// samePort listens on two addresses at the same port. One that is free at the first may
// be taken at the second.
func samePort(t *testing.T, first, second string) (a, b net.Listener) {
	t.Helper()
	var err error
	for range 100 {
		if a, err = net.Listen("tcp", first+":0"); err != nil {
			break
		}
		port := a.Addr().(*net.TCPAddr).Port
		if b, err = net.Listen("tcp", fmt.Sprintf("%s:%d", second, port)); err == nil {
			return a, b
		}
		a.Close()
	}
	t.Fatal(err)
	return nil, nil
}

func serve(t *testing.T, listener net.Listener, handler http.HandlerFunc) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
}

// A dnsServer answers every question for an IPv4 address with one.
type dnsServer struct {
	conn net.PacketConn
	ip   atomic.Value // [4]byte
}

func newDNS(t *testing.T) *dnsServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &dnsServer{conn: conn}
	done := make(chan struct{})
	go func() { defer close(done); d.serve() }()
	t.Cleanup(func() { conn.Close(); <-done })
	return d
}

func (d *dnsServer) answer(ip [4]byte) { d.ip.Store(ip) }

func (d *dnsServer) resolver() *net.Resolver {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "udp", d.conn.LocalAddr().String())
	}}
}

func (d *dnsServer) serve() {
	query := make([]byte, 512)
	for {
		n, from, err := d.conn.ReadFrom(query)
		if err != nil {
			return
		}
		if reply := d.reply(query[:n]); reply != nil {
			_, _ = d.conn.WriteTo(reply, from)
		}
	}
}

func (d *dnsServer) reply(query []byte) []byte {
	const header, typeA = 12, 1
	end := header // of the question
	for end < len(query) && query[end] != 0 {
		end += 1 + int(query[end])
	}
	end += 5 // the root label, type and class
	if end > len(query) {
		return nil
	}
	reply := append([]byte(nil), query[:end]...)
	binary.BigEndian.PutUint16(reply[2:], 0x8180) // an answer, recursion available
	clear(reply[6:header])                        // no answers, authorities, additionals
	if binary.BigEndian.Uint16(reply[end-4:]) != typeA {
		return reply
	}
	binary.BigEndian.PutUint16(reply[6:], 1)
	ip := d.ip.Load().([4]byte)
	reply = append(reply, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4)
	return append(reply, ip[:]...)
}
