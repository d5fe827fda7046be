// Command mutants plants each seeded bug and runs the command that must find it. It
// fails when one survives, or takes longer than two minutes to be found.
//
//	mutants [-only NAME]
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/go-outbox/outbox/internal/torture/mutants"
)

// patience is how long a mutant may go unnoticed, from the moment its command starts.
const patience = 2 * time.Minute

func main() {
	only := flag.String("only", "", "the one mutant to plant")
	flag.Parse()
	if err := run(*only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(only string) error {
	all, err := mutants.All()
	if err != nil {
		return err
	}
	var survivors []string
	fmt.Println("| mutant | bug | caught by | after |\n|---|---|---|---|")
	for _, m := range all {
		if only != "" && m.Name != only {
			continue
		}
		began := time.Now()
		by, err := hunt(m)
		if err != nil {
			survivors = append(survivors, m.Name)
			by = "NOT CAUGHT: " + err.Error()
		}
		fmt.Printf("| %s | %s | %s | %.1f s |\n", m.Name, m.Bug, by, time.Since(began).Seconds())
	}
	if len(survivors) > 0 {
		return fmt.Errorf("survived: %s", strings.Join(survivors, ", "))
	}
	return nil
}

// hunt runs the catching command on a mutant and says which check failed.
func hunt(m mutants.Mutant) (string, error) {
	dir, err := os.MkdirTemp("", "mutant-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.Overlay(".", dir)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	argv := m.Command(overlay)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// A group of its own, so that what the command has started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	switch text := out.String(); {
	case ctx.Err() != nil:
		return "", fmt.Errorf("nothing after %s", patience)
	case err == nil:
		return "", errors.New("the command passed")
	case strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]"):
		return "", fmt.Errorf("it does not compile: %.500s", text)
	default:
		return culprit(m, text), nil
	}
}

// culprit is the first check that failed: a test, or a rule of the torture.
func culprit(m mutants.Mutant, text string) string {
	deepest := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " (")
			if deepest == "" || strings.HasPrefix(name, deepest+"/") {
				deepest = name
			}
		}
	}
	if deepest != "" {
		return "`" + deepest + "`"
	}
	for line := range strings.Lines(text) {
		if rule, _, ok := strings.Cut(line, ":"); ok && rules[rule] {
			return "torture, rule " + rule
		}
	}
	return "`" + strings.Join(m.CaughtBy, " ") + "`"
}

var rules = map[string]bool{
	"loss": true, "phantom": true, "atomicity": true, "integrity": true, "duplicate": true, "order": true, "attempts": true,
	"burial": true, "limbo": true, "finality": true, "fencing": true, "liveness": true, "resources": true, "cleaner": true, "alarm": true,
}
