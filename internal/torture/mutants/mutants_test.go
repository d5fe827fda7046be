package mutants

import (
	"strings"
	"testing"
)

// A mutant that no longer applies checks nothing. That they are caught is shown by
// cmd/mutants, which takes minutes.
func TestEveryMutantAppliesToTheCode(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	const fewest = 15
	if len(all) < fewest {
		t.Errorf("%d mutants, want at least %d", len(all), fewest)
	}
	for _, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			changed, err := m.Apply("../../..")
			if err != nil {
				t.Fatal(err)
			}
			if len(changed) == 0 {
				t.Error("it changes nothing")
			}
			if m.CaughtBy[0] != "go" || (m.CaughtBy[1] != "test" && m.CaughtBy[1] != "run") {
				t.Errorf("caught by %q, want go test or go run", strings.Join(m.CaughtBy, " "))
			}
		})
	}
}

func TestAPatchThatDoesNotFitIsRefused(t *testing.T) {
	m, err := parse("x", "Bug: b\nCaught-by: go test .\n--- a/mutants.go\n+++ b/mutants.go\n@@ @@\n-no such line\n+another\n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Apply("."); err == nil {
		t.Error("it applied")
	}
	if _, err := parse("x", "Bug: b\n"); err == nil {
		t.Error("a patch without hunks was read")
	}
}
