package config_test

import (
	"bytes"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
)

// Whatever a file says, loading it ends in a configuration or in a mistake of the user's,
// and what was loaded can be printed and loaded again.
func FuzzLoadFile(f *testing.F) {
	for _, seed := range []string{
		"", "dsn: postgres://u:p@h/d\n", "relay:\n  lease: 15s\n  batch: 500\n", "relay: [1, 2]\n", "a: &a [*a]\n", "relay:\n  lease: -1s\n",
		"? [x]\n: y\n", "\x00", "relay: {lease: 1e999s}\n", "- 1\n", "retention: 99999999999h\n", "unknown: 1\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "outbox.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(config.Sources{File: path, Env: env()})
		if err != nil {
			if !errors.Is(err, outbox.ErrInvalidConfig) {
				t.Errorf("strange error %v", err)
			}
			return
		}
		var printed bytes.Buffer
		if err := c.WriteYAML(&printed); err != nil {
			t.Errorf("what was loaded cannot be printed: %v", err)
		}
	})
}

// No password and no token of an address is ever printed.
func FuzzRedact(f *testing.F) {
	f.Add("postgres", "user", "hunter2hunter2", "host", "db")
	f.Add("https", "", "s3cr3t-s3cr3t", "host:443", "hook")
	f.Add("?", "u", "hunter2hunter2", "h", "d")
	f.Add("mysql", "u@v", "p/w:d?&#%-longer", "h", "")
	f.Fuzz(func(t *testing.T, scheme, user, secret, host, path string) {
		if len(secret) < 8 || strings.Contains(scheme+user+host+path+"xxxxx", secret) {
			t.Skip("not to be told from the rest")
		}
		if strings.Contains(scheme, ":") {
			t.Skip("the scheme would be another")
		}
		u := url.URL{Scheme: scheme, User: url.UserPassword(user, secret), Host: host, Path: path}
		q := url.URL{Scheme: scheme, Host: host, Path: path, RawQuery: url.Values{"api_token": {secret}}.Encode()}
		for _, address := range []string{u.String(), q.String()} {
			shown := config.Redact(address)
			unescaped, err := url.QueryUnescape(shown)
			if strings.Contains(shown, secret) || err == nil && strings.Contains(unescaped, secret) {
				t.Errorf("%q is shown as %q", address, shown)
			}
		}
		_ = config.Redact(secret) // only that it returns
	})
}
