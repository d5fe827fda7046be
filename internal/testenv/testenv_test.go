package testenv

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// verdict is a testing.TB that remembers how a test ended.
type verdict struct {
	testing.TB
	kind, text string
}

func (v *verdict) Helper() {}

func (v *verdict) Fatal(args ...any) { v.end("fatal", args...) }

func (v *verdict) Skip(args ...any) { v.end("skip", args...) }

func (v *verdict) end(kind string, args ...any) {
	v.kind, v.text = kind, args[0].(string)
	runtime.Goexit()
}

// judge runs f as a test and says how it ended.
func judge(t *testing.T, f func(testing.TB)) *verdict {
	v := &verdict{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(v)
	}()
	<-done
	return v
}

func TestMissingBackendIsSkippedLoudlyOrFails(t *testing.T) {
	tests := []struct{ name, require, ci, want string }{
		{"by hand", "", "", "skip"},
		{"another is required", "mysql,kafka", "", "skip"},
		{"required", "mysql,pgbouncer", "", "fatal"},
		{"in CI", "", "true", "fatal"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("OUTBOX_REQUIRE", tt.require)
			t.Setenv("CI", tt.ci)

			v := judge(t, func(tb testing.TB) { pgbouncer.missing(tb, errors.New("no such program")) })

			if v.kind != tt.want {
				t.Errorf("the test ended with %q, want %q", v.kind, tt.want)
			}
			for _, part := range []string{"needs pgbouncer: no such program", "apt-get install pgbouncer"} {
				if !strings.Contains(v.text, part) {
					t.Errorf("%q does not say %q", v.text, part)
				}
			}
		})
	}
}

func TestBackendNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range Backends() {
		if seen[b.Name] || b.Name == "" || len(b.packages) == 0 || b.find == nil {
			t.Errorf("backend %q is incomplete or listed twice", b.Name)
		}
		seen[b.Name] = true
	}
}
