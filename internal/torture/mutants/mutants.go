// Package mutants keeps seeded bugs of the engine and the stores: one per rule of the
// protocol where possible. Each is a patch with the command that must catch it. A
// command that passes on a mutant proves nothing about the code either.
package mutants

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed *.patch
var files embed.FS

// A Mutant is a bug and how it is found.
type Mutant struct {
	Name string
	// Bug says what is wrong, CaughtBy which command fails because of it.
	Bug      string
	CaughtBy []string
	hunks    []hunk
}

// A hunk replaces some lines of a file by others. It is found by its text, not by its
// place, so that it survives changes elsewhere in the file.
type hunk struct {
	file     string
	old, new string
}

// All returns the mutants by name.
func All() ([]Mutant, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var list []Mutant
	for _, e := range entries {
		text, err := files.ReadFile(e.Name())
		if err != nil {
			return nil, err
		}
		m, err := parse(strings.TrimSuffix(e.Name(), ".patch"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		list = append(list, m)
	}
	return list, nil
}

// parse reads a patch: header lines, then unified diffs with paths from the module's
// root.
func parse(name, text string) (Mutant, error) {
	m := Mutant{Name: name}
	file := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch last := len(m.hunks) - 1; {
		case strings.HasPrefix(line, "Bug: "):
			m.Bug = strings.TrimPrefix(line, "Bug: ")
		case strings.HasPrefix(line, "Caught-by: "):
			m.CaughtBy = strings.Fields(strings.TrimPrefix(line, "Caught-by: "))
		case strings.HasPrefix(line, "--- a/"):
			file = strings.TrimPrefix(line, "--- a/")
		case strings.HasPrefix(line, "+++ "):
		case strings.HasPrefix(line, "@@"):
			m.hunks = append(m.hunks, hunk{file: file})
		case last < 0 || line == "":
		case line[0] == '-':
			m.hunks[last].old += line[1:] + "\n"
		case line[0] == '+':
			m.hunks[last].new += line[1:] + "\n"
		case line[0] == ' ':
			m.hunks[last].old += line[1:] + "\n"
			m.hunks[last].new += line[1:] + "\n"
		default:
			return m, fmt.Errorf("line %q is no part of a patch", line)
		}
	}
	if m.Bug == "" || len(m.CaughtBy) == 0 || len(m.hunks) == 0 {
		return m, errors.New("want Bug, Caught-by and at least one hunk")
	}
	return m, nil
}

// Apply returns the files that the mutant changes, with their new contents, for a
// module in the directory top.
func (m Mutant) Apply(top string) (map[string]string, error) {
	changed := make(map[string]string)
	for _, h := range m.hunks {
		text, ok := changed[h.file]
		if !ok {
			raw, err := os.ReadFile(filepath.Join(top, h.file))
			if err != nil {
				return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
			}
			text = string(raw)
		}
		if n := strings.Count(text, h.old); n != 1 {
			return nil, fmt.Errorf("mutant %s: %s has %d places like\n%s", m.Name, h.file, n, h.old)
		}
		changed[h.file] = strings.Replace(text, h.old, h.new, 1)
	}
	return changed, nil
}

// Overlay writes the changed files into dir, with a list of them for the -overlay flag
// of the go command, and returns the path of that list. The module is not touched.
func (m Mutant) Overlay(top, dir string) (string, error) {
	changed, err := m.Apply(top)
	if err != nil {
		return "", err
	}
	if top, err = filepath.Abs(top); err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for file, text := range changed {
		path := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(top, file)] = path
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	return list, os.WriteFile(list, text, 0o644)
}

// Command is the command that catches the mutant, with the overlay.
func (m Mutant) Command(overlay string) []string {
	return slices.Insert(slices.Clone(m.CaughtBy), 2, "-overlay="+overlay) // go test, go run
}
