package doctest_test

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// top is the directory of the module, seen from the tests.
const top = "../.."

// scripts are the tests of the command line.
var scripts = filepath.Join(top, "cmd", "outbox", "testdata", "script")

func TestTheReadmesQuickStartIsTheCompiledExample(t *testing.T) {
	example := source(t, "example_test.go")
	want := dedent(inside(example.declaration(t, "quickStart")))
	for _, name := range []string{"README.md", "README.zh-CN.md"} {
		blocks := codeBlocks(read(t, name), "go")
		if len(blocks) == 0 {
			t.Fatalf("%s has no Go code", name)
		}
		if got := blocks[0]; got != want {
			t.Errorf("the first Go code of %s is not the body of quickStart in example_test.go:\n%s\nwant:\n%s", name, got, want)
		}
	}
}

func TestTheGuidesCodeIsTheCompiledExample(t *testing.T) {
	example := source(t, "internal/doctest/example_integrate_test.go")
	page := read(t, "docs/integrate.md")
	marked := regexp.MustCompile("(?s)<!-- code: ([\\w ]+) -->\n```go\n(.*?)\n```").FindAllStringSubmatch(page, -1)
	if n := len(codeBlocks(page, "go")); n != len(marked) || n == 0 {
		t.Errorf("%d of %d Go blocks say which declarations they show", len(marked), n)
	}
	for _, m := range marked {
		var want []string
		for _, name := range strings.Fields(m[1]) {
			want = append(want, example.declaration(t, name))
		}
		if got := m[2]; got != strings.Join(want, "\n\n") {
			t.Errorf("the code for %q is not that of example_integrate_test.go:\n%s", m[1], got)
		}
	}
}

func TestEveryRequirementHasARow(t *testing.T) {
	page := read(t, "docs/requirements.md")
	for _, id := range requirements() {
		rows := regexp.MustCompile(`(?m)^\| `+id+` \|(.*)\|$`).FindAllStringSubmatch(page, -1)
		if len(rows) != 1 {
			t.Errorf("%s has %d rows, want 1", id, len(rows))
			continue
		}
		if cells := strings.Split(rows[0][1], "|"); len(cells) != 4 || strings.TrimSpace(cells[1]) == "" {
			t.Errorf("%s: want what, state, where and tests, got %q", id, rows[0][1])
		}
	}
}

// requirements are the ids of all requirements.
func requirements() []string {
	var ids []string
	for _, group := range []struct {
		name string
		n    int
	}{{"R-A", 52}, {"R-B", 22}, {"R-C", 12}, {"R-D", 12}} {
		for i := range group.n {
			ids = append(ids, group.name+strconv.Itoa(i+1))
		}
	}
	return ids
}

// Tests are named package.TestName, claims of the store contract Topic/claim, and
// scripts NAME.txtar. TestName may go on with a subtest, which is not looked for.
func TestEveryTestThatIsNamedExists(t *testing.T) {
	tests, claims := testFunctions(t), storeClaims(t)
	named := regexp.MustCompile(`\b([a-z]+)\.((?:Test|Fuzz|Example)\w*)`)
	claimed := regexp.MustCompile("`([A-Z][a-z]+/[a-z0-9_]+)`")
	script := regexp.MustCompile("`([a-z_]+\\.txtar)`")
	for _, name := range pages(t) {
		text := read(t, name)
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(tests[m[1]], m[2]) {
				t.Errorf("%s: there is no %s in a package %s", name, m[2], m[1])
			}
		}
		for _, m := range claimed.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(claims, m[1]) {
				t.Errorf("%s: the store contract does not claim %s", name, m[1])
			}
		}
		for _, m := range script.FindAllStringSubmatch(text, -1) {
			if found, _ := filepath.Glob(filepath.Join(scripts, "*", m[1])); len(found) == 0 &&
				!exists(filepath.Join(scripts, m[1])) {
				t.Errorf("%s: there is no script %s", name, m[1])
			}
		}
	}
}

func TestRelativeLinksResolve(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, name := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(withoutCode(read(t, name)), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := name
			if target != "" {
				file = filepath.Join(filepath.Dir(name), target)
			}
			if !exists(filepath.Join(top, file)) {
				t.Errorf("%s: %s does not exist", name, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, file)), anchor) {
				t.Errorf("%s: %s has no such heading", name, m[1])
			}
		}
	}
}

// Words that promise more than any outbox can keep, or more than a run has shown.
var boasts = regexp.MustCompile(`(?i)exactly[- ]once|zero[- ]loss|guaranteed delivery|never duplicates|real[- ]time|\bunlimited\b|` +
	`zero[- ]overhead|100 ?% reliable|works with any pooler|fully compatible|secure by design|jepsen|formally verified`)

func TestContributorsAreToldOfEveryTarget(t *testing.T) {
	page := read(t, "CONTRIBUTING.md")
	targets := regexp.MustCompile(`(?m)^([a-z-]+):.*## `).FindAllStringSubmatch(read(t, "Makefile"), -1)
	if len(targets) < 5 {
		t.Fatalf("%d targets in the Makefile: is it read as it should be?", len(targets))
	}
	for _, target := range targets {
		if !strings.Contains(page, "`make "+target[1]+"`") {
			t.Errorf("CONTRIBUTING.md does not mention make %s", target[1])
		}
	}
}

func TestNoPageBoasts(t *testing.T) {
	for _, name := range pages(t) {
		if found := boasts.FindString(read(t, name)); found != "" {
			t.Errorf("%s says %q", name, found)
		}
	}
}

func TestTheChecksFindWhatTheyLookFor(t *testing.T) {
	for _, text := range []string{"delivers exactly once", "Real-time", "a fully compatible store"} {
		if !boasts.MatchString(text) {
			t.Errorf("%q is no boast", text)
		}
	}
	if got := anchors("# A\n## The `x` layout (PostgreSQL)\n```\n# no heading\n```\n"); !slices.Equal(got, []string{"a", "the-x-layout-postgresql"}) {
		t.Errorf("anchors: %q", got)
	}
	if got := dedent("\ta {\n\n\t\tb\n\t}"); got != "a {\n\n\tb\n}" {
		t.Errorf("dedent: %q", got)
	}
	if got := len(requirements()); got != 98 {
		t.Errorf("%d requirements, want 98", got)
	}
}

// pages lists the documentation of the module, relative to its top.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		names, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			relative, err := filepath.Rel(top, name)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, relative)
		}
	}
	if len(found) < 10 {
		t.Fatalf("found only the pages %q", found)
	}
	return found
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// codeBlocks returns the fenced blocks of a language.
func codeBlocks(page, language string) []string {
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, strings.TrimSuffix(m[1], "\n"))
	}
	return blocks
}

func withoutCode(page string) string {
	return regexp.MustCompile("(?ms)^```.*?\n```$").ReplaceAllString(page, "")
}

// anchors are the names that the headings of a page can be linked by.
func anchors(page string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(withoutCode(page), -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(kept, " ", "-"))
	}
	return all
}

// A goFile is a parsed file whose declarations can be quoted.
type goFile struct {
	name string
	set  *token.FileSet
	file *ast.File
	text string
}

func source(t *testing.T, name string) goFile {
	t.Helper()
	text := read(t, name)
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
		t.Errorf("%s is not formatted: %v", name, err)
	}
	return goFile{name, set, file, text}
}

// declaration returns the text of a function or type.
func (f goFile) declaration(t *testing.T, name string) string {
	t.Helper()
	for _, d := range f.file.Decls {
		if declared(d) == name {
			return f.text[f.set.Position(d.Pos()).Offset:f.set.Position(d.End()).Offset]
		}
	}
	t.Fatalf("%s does not declare %s", f.name, name)
	return ""
}

func declared(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name
	case *ast.GenDecl:
		if spec, ok := d.Specs[0].(*ast.TypeSpec); ok {
			return spec.Name.Name
		}
	}
	return ""
}

// inside returns what is between the first line of a function and its last.
func inside(function string) string {
	_, body, _ := strings.Cut(function, "{\n")
	return strings.TrimSuffix(body, "\n}")
}

func dedent(code string) string {
	lines := strings.Split(code, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "\t")
	}
	return strings.Join(lines, "\n")
}

// testFunctions lists the tests, fuzz targets and examples by package name.
func testFunctions(t *testing.T) map[string][]string {
	t.Helper()
	tests := make(map[string][]string)
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	clause := regexp.MustCompile(`(?m)^package (\w+)`)
	err := filepath.WalkDir(top, func(name string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		p := strings.TrimSuffix(clause.FindStringSubmatch(string(text))[1], "_test")
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			tests[p] = append(tests[p], m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// storeClaims lists the claims of the store contract as Topic/claim.
func storeClaims(t *testing.T) []string {
	t.Helper()
	var claims []string
	list := regexp.MustCompile(`(?ms)^var (\w+)Claims = \[\]claim\{$(.*?)\n\}$`)
	claim := regexp.MustCompile(`(?m)^\t\{"(\w+)"`)
	topic := regexp.MustCompile(`\{"(\w+)", (\w+)Claims\}`)
	names := make(map[string]string)
	for _, m := range topic.FindAllStringSubmatch(read(t, "store/storetest/storetest.go"), -1) {
		names[m[2]] = m[1]
	}
	files, err := filepath.Glob(filepath.Join(top, "store", "storetest", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range list.FindAllStringSubmatch(string(text), -1) {
			for _, c := range claim.FindAllStringSubmatch(l[2], -1) {
				claims = append(claims, names[l[1]]+"/"+c[1])
			}
		}
	}
	if len(claims) < 100 {
		t.Fatalf("found only %d claims of the store contract", len(claims))
	}
	return claims
}
