package outboxvet_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/go-outbox/outbox/outboxvet"
)

func TestItReportsWhatLosesEventsAndNothingElse(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), outboxvet.Analyzer, "a")
}

// The store's own tests enqueue in every way there is, so a report there is a false alarm.
func TestGoVetRunsIt(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs; run without -short")
	}
	tool := filepath.Join(t.TempDir(), "outboxvet")
	run(t, "..", "build", "-o", tool, "./cmd/outboxvet")
	run(t, "..", "vet", "-vettool="+tool, "./store/sqlitestore")

	// And it does find something when it is run that way.
	dir := filepath.Join("testdata", "vet")
	cmd := exec.Command("go", "vet", "-vettool="+tool, "./"+dir)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the error of Enqueue is ignored") {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}

func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
}
