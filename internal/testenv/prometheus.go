package testenv

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// prometheus is Debian's package, which holds the server and promtool. Every test
// starts its own.
var prometheus = Backend{
	Name:     "prometheus",
	packages: []string{"prometheus"},
	find: func() error {
		_, server := exec.LookPath("prometheus")
		_, tool := exec.LookPath("promtool")
		return errors.Join(server, tool)
	},
}

// Prometheus starts a Prometheus that scrapes target, a host and port, five times a
// second as the job "relay" and evaluates the given rule files. It returns the server's
// base URL and stops it when t ends.
func Prometheus(t testing.TB, target string, rules ...string) string {
	t.Helper()
	path := prometheusProgram(t, "prometheus")
	dir, err := serverDir("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config, err := prometheusConfig(dir, target, rules)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // another process may take the port first
		var p *process
		var url string
		if p, url, err = startPrometheus(path, dir, config); err == nil {
			t.Cleanup(func() { discard(t, p) })
			return url
		}
	}
	t.Fatal(err)
	return ""
}

// Promtool runs Prometheus's own checker with stdin and returns what it says.
func Promtool(t testing.TB, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), prometheusProgram(t, "promtool"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func prometheusProgram(t testing.TB, name string) string {
	t.Helper()
	prometheus.need(t)
	path, err := exec.LookPath(name)
	if err != nil {
		prometheus.missing(t, err)
	}
	return path
}

// prometheusConfig writes the configuration, and the rules beside it: the server's user
// need not be able to read the originals.
func prometheusConfig(dir, target string, rules []string) (string, error) {
	var names []string
	for i, rule := range rules {
		text, err := os.ReadFile(rule)
		if err != nil {
			return "", err
		}
		name := filepath.Join(dir, fmt.Sprintf("%d.rules.yml", i))
		if err := writeForServer(name, string(text)); err != nil {
			return "", err
		}
		names = append(names, fmt.Sprintf("%q", name))
	}
	config := filepath.Join(dir, "prometheus.yml")
	return config, writeForServer(config, fmt.Sprintf(`global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}
rule_files: [%s]
scrape_configs:
- job_name: relay
  static_configs: [{targets: [%q]}]
`, strings.Join(names, ", "), target))
}

func writeForServer(name, text string) error {
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return err
	}
	return handOver(name)
}

func startPrometheus(path, dir, config string) (*process, string, error) {
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	p, err := spawn(dir, "TERM", path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address)
	if err != nil {
		return nil, "", err
	}
	url := "http://" + address
	if err := p.awaitReady(func() error { return answersOK(url + "/-/ready") }); err != nil {
		return nil, "", errors.Join(err, p.signal("TERM"))
	}
	return p, url, nil
}

// answersOK leaves no connection behind, and so no goroutine.
func answersOK(url string) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	return nil
}
