package torture

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTotalSumsUpTheReportsOfADirectory(t *testing.T) {
	dir := t.TempDir()
	for i, took := range []time.Duration{600 * time.Millisecond, 900 * time.Millisecond} {
		h := story()
		h.Seed, h.Driver = uint64(7+i), Postgres
		h.strike(KillRelay, 350, 800, "relay-1.1")
		v := Judge(h)
		v.Takeovers = waits([]time.Duration{took}, 700*time.Millisecond)
		if err := Save(filepath.Join(dir, fmt.Sprint(v.Seed)), h, v, false); err != nil {
			t.Fatal(err)
		}
	}

	var total Total
	if err := total.AddReports(dir); err != nil {
		t.Fatal(err)
	}

	text := total.Markdown()
	for _, want := range []string{
		"| postgres | 2: 7 to 8 | 8 | 8 | 2 (2) | 0 |",
		"| postgres, from kill -9 to the next owner | 2 | 900ms | 900ms | 900ms | lease + 2 polls | 1 |",
		"| I1 loss | 0 |",
		"| kill -9 relay | 2 (2) |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

func TestTotalOfADirectoryWithoutReportsSaysWhatIsMissing(t *testing.T) {
	var total Total
	if err := total.AddReports(t.TempDir()); err == nil || !strings.Contains(err.Error(), "--report") {
		t.Errorf("got %v", err)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 5012345: "5,012,345"} {
		if got := thousands(n); got != want {
			t.Errorf("thousands(%d) = %q, want %q", n, got, want)
		}
	}
}

// In a run in which nothing is broken a lost lease is no excuse.
func TestACalmRunHasNoExcuseForADuplicate(t *testing.T) {
	h := story()
	h.strike(KillRelay, 350, 1000, "relay-1.1")
	h.deliver(1, 900)
	if found := Check(h); len(found) != 0 {
		t.Fatalf("there is an excuse: %v", found)
	}
	h.Calm = true
	if found := Check(h); len(found) != 1 || found[0].Rule != Duplicate {
		t.Errorf("got %v, want a duplicate", found)
	}
}
