package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Whoever is woken at night copies commands from the runbook: they exist, with their
// flags.
func TestTheCommandsOfTheRunbookExist(t *testing.T) {
	command := regexp.MustCompile("(?m)(?:^|`)outbox ([a-z][^`\n]*)")
	word := regexp.MustCompile(`'[^']*'|\S+`)
	for _, name := range []string{"../../docs/runbook.md", "../../docs/observability.md"} {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := command.FindAllStringSubmatch(string(page), -1)
		for _, m := range found {
			line, _, _ := strings.Cut(m[1], " #")
			if err := understands(word.FindAllString(line, -1)); err != nil {
				t.Errorf("%s: outbox %s: %v", name, line, err)
			}
		}
		if strings.HasSuffix(name, "runbook.md") && len(found) < 20 {
			t.Errorf("only %d commands were found", len(found))
		}
	}
}

// understands reports what the program would not take about its arguments.
func understands(args []string) error {
	a := &app{out: io.Discard, err: io.Discard, env: func(string) (string, bool) { return "", false }}
	cmd, rest, err := a.root().Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return fmt.Errorf("%s has no command %s", cmd.CommandPath(), words[0])
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func TestAnUnknownCommandIsNotUnderstood(t *testing.T) {
	for _, line := range []string{"nonsense", "dead nonsense", "status --nonsense", "show", "resume a b"} {
		if understands(strings.Fields(line)) == nil {
			t.Errorf("outbox %s is understood", line)
		}
	}
}
