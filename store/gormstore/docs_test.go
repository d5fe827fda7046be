package gormstore_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The Go code of these pages says in a comment before it which file it is from.
func TestTheCodeOfThePagesIsCompiled(t *testing.T) {
	for _, name := range []string{"gorm.md", "choosing-a-store.md", "coming-from.md"} {
		page := readFile(t, "docs/"+name)
		blocks := regexp.MustCompile("(?s)<!-- code: (\\S+) -->\n```go\n(.*?)```").FindAllStringSubmatch(page, -1)
		if all := strings.Count(page, "```go\n"); len(blocks) != all || all == 0 {
			t.Errorf("%s: %d of %d blocks say where they are from", name, len(blocks), all)
		}
		for _, b := range blocks {
			if !strings.Contains(readFile(t, b[1]), b[2]) {
				t.Errorf("%s: not in %s:\n%s", name, b[1], b[2])
			}
		}
	}
}

// That the tests exist is checked with those of the other pages, in internal/doctest.
func TestEveryLineOfTheComparisonNamesATest(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| (.*) \|$`)
	proof := regexp.MustCompile("`[a-z]+\\.Test\\w+`|`[A-Z][a-z]+/[a-z_]+`")
	lines := 0
	for _, m := range row.FindAllStringSubmatch(readFile(t, "docs/coming-from.md"), -1) {
		cells := strings.Split(m[1], " | ")
		if cells[len(cells)-1] == "proven by" {
			continue
		}
		lines++
		if len(cells) != 3 || !proof.MatchString(cells[2]) {
			t.Errorf("no test: %s", m[1])
		}
	}
	if lines < 50 {
		t.Errorf("found only %d lines", lines)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	ok(t, err)
	return string(text)
}
