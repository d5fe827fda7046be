package testenv

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"
)

// Proxy is a TCP proxy between a client and a server, on a network that can
// fail: it is how tests cut connections without touching the server. NewProxy
// makes it. A fault lasts until Heal or the next fault. It is not safe for
// concurrent use.
type Proxy struct {
	t     testing.TB
	proxy *toxiproxy.Proxy
}

// NewProxy starts a proxy for the server at upstream, "host:port", and stops it
// when t ends. Toxiproxy does the work, in a process of its own that the tests
// of this process share; the go command builds it the first time.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a proxy; run without -short")
	}
	server, err := ownToxiproxy()
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t}
	name := fmt.Sprintf("%d", time.Now().UnixNano())
	p.do(func() (err error) {
		p.proxy, err = toxiproxy.NewClient(server.address).CreateProxy(name, "127.0.0.1:0", upstream)
		return err
	})
	t.Cleanup(func() { p.do(p.proxy.Delete) })
	// A connection that begins under a reset, even one that never strikes, ends
	// with a TCP reset; one that meets it later would end with an ordinary close.
	p.add("linger", "reset_peer", 0, nil)
	return p
}

// Addr is where the client connects to, "127.0.0.1:port". It stays the same.
func (p *Proxy) Addr() string { return p.proxy.Listen }

// Reset answers the next byte on every connection, old or new and in either
// direction, with a TCP reset. The byte is lost.
func (p *Proxy) Reset() {
	p.t.Helper()
	p.Heal()
	p.add("fault", "reset_peer", 1, nil)
}

// Blackhole keeps connections open and takes new ones, and lets nothing pass.
// Heal closes them: what they lost is lost.
func (p *Proxy) Blackhole() {
	p.t.Helper()
	p.Heal()
	p.add("fault", "timeout", 1, toxiproxy.Attributes{"timeout": 0})
}

// Slow lets everything pass 100 ms late, in either direction.
func (p *Proxy) Slow() {
	p.t.Helper()
	p.Heal()
	p.add("fault", "latency", 1, toxiproxy.Attributes{"latency": 100})
}

// Down closes every connection and refuses new ones, as if the server were not
// running.
func (p *Proxy) Down() {
	p.t.Helper()
	p.Heal()
	p.do(p.proxy.Disable)
}

// Fail starts the fault of that name: "reset", "blackhole", "slow" or "down". It
// returns Heal.
func (p *Proxy) Fail(fault string) (heal func()) {
	p.t.Helper()
	start := map[string]func(){"reset": p.Reset, "blackhole": p.Blackhole, "slow": p.Slow, "down": p.Down}[fault]
	if start == nil {
		p.t.Fatalf("proxy: no fault %q", fault)
	}
	start()
	return p.Heal
}

// Heal ends the fault, if there is one.
func (p *Proxy) Heal() {
	p.t.Helper()
	for _, toxic := range p.proxy.ActiveToxics {
		if strings.HasPrefix(toxic.Name, "fault") {
			p.do(func() error { return p.proxy.RemoveToxic(toxic.Name) })
		}
	}
	p.proxy.ActiveToxics = nil
	if !p.proxy.Enabled {
		p.do(p.proxy.Enable)
	}
}

// add puts a toxic into both directions.
func (p *Proxy) add(name, kind string, toxicity float32, attributes toxiproxy.Attributes) {
	p.t.Helper()
	for _, direction := range []string{"upstream", "downstream"} {
		p.do(func() error {
			toxic, err := p.proxy.AddToxic(name+"_"+direction, kind, direction, toxicity, attributes)
			if err == nil {
				p.proxy.ActiveToxics = append(p.proxy.ActiveToxics, *toxic)
			}
			return err
		})
	}
}

// do makes one request of the proxy's server, and leaves no connection to it
// behind for leak checks to find.
func (p *Proxy) do(request func() error) {
	p.t.Helper()
	err := request()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if err != nil {
		p.t.Fatalf("proxy: %v", err)
	}
}

// toxiproxyServer is the process that the proxies of this process live in.
type toxiproxyServer struct {
	address string
	process *process
}

// ownToxiproxy has no matching stop: the supervisor sees this process exit.
var ownToxiproxy = sync.OnceValues(func() (*toxiproxyServer, error) {
	dir, err := serverDir("toxiproxy")
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, "toxiproxy")
	if err := buildToxiproxy(program); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	for range 3 { // another process may take the port first
		var s *toxiproxyServer
		if s, err = startToxiproxy(dir, program); err == nil {
			return s, nil
		}
	}
	return nil, errors.Join(err, os.RemoveAll(dir))
})

// buildToxiproxy copies the program from the go command's cache, where the
// server's user cannot reach it.
func buildToxiproxy(program string) error {
	cmd := exec.Command("go", "tool", "-n", "github.com/Shopify/toxiproxy/v2/cmd/server")
	cmd.Stderr = new(strings.Builder)
	cached, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("build toxiproxy: %w\n%s", err, cmd.Stderr)
	}
	from, err := os.Open(strings.TrimSpace(string(cached)))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(program, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

func startToxiproxy(dir, program string) (*toxiproxyServer, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p, err := spawn(dir, "TERM", program, "-host", "127.0.0.1", "-port", strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	s := &toxiproxyServer{address: fmt.Sprintf("127.0.0.1:%d", port), process: p}
	ready := func() error {
		_, err := toxiproxy.NewClient(s.address).Version()
		return err
	}
	if err := p.awaitReady(ready); err != nil {
		return nil, errors.Join(err, p.signal("TERM"))
	}
	return s, nil
}
