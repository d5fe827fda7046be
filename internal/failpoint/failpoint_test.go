package failpoint

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// An ordinary program pays nothing: the call is gone from the machine code.
func TestAnOrdinaryBuildHasNoFailpoints(t *testing.T) {
	if Enabled {
		t.Skip("built with the failpoint tag")
	}
	if n := testing.AllocsPerRun(100, func() { Hit(Stepped) }); n != 0 {
		t.Errorf("%f allocations", n)
	}
	if Arm(Stepped+"=kill@1") == nil {
		t.Error("armed")
	}
	Hit(Stepped) // or this test ends here
}

// With the tag the process ends at the armed place, at the right time, and nowhere else.
func TestAnArmedFailpointEndsItsProcess(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program; run without -short")
	}
	program := t.TempDir() + "/hit"
	build := exec.Command("go", "build", "-tags", "failpoint", "-o", program, "./testdata/hit")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for armed, want := range map[string]string{
		"":                     "123",
		Dispatched + "=kill@1": "123", // another place
		Stepped + "=kill@2":    "1",
		Stepped + "=kill@9":    "123",
	} {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), Variable+"="+armed)
		out, err := cmd.Output()
		if got := strings.TrimSpace(string(out)); got != want || (err == nil) != (want == "123") {
			t.Errorf("%q: said %q and ended with %v, want %q", armed, got, err, want)
		}
	}
}
