package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// top is the directory of the module, seen from the tests.
const top = "../.."

func TestImportsFollowTheTable(t *testing.T) {
	for _, f := range sources(t) {
		for _, violation := range f.imports() {
			t.Error(violation)
		}
	}
}

func TestOnlyOwnersStartGoroutines(t *testing.T) {
	for _, f := range sources(t) {
		for _, violation := range f.goroutines() {
			t.Error(violation)
		}
	}
}

func TestNoStructHoldsAContext(t *testing.T) {
	for _, f := range sources(t) {
		if slices.Contains(contextTypes, f.name) {
			continue
		}
		for _, violation := range f.contexts() {
			t.Error(violation)
		}
	}
}

func TestProgramsLinkOnlyWhatTheyUse(t *testing.T) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			for _, dir := range p.packages {
				if found, _ := filepath.Glob(filepath.Join(top, dir, "*.go")); len(found) == 0 {
					t.Skipf("there is no package %s yet", dir)
				}
			}
			for _, linked := range modulesOf(t, p.packages) {
				if linked != module && !slices.Contains(p.links, linked) {
					t.Errorf("a program that imports %v links %s", p.packages, linked)
				}
			}
		})
	}
}

// modulesOf lists the modules of all dependencies of some of our packages.
func modulesOf(t *testing.T, packages []string) []string {
	t.Helper()
	args := []string{"list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = top
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, problems.String())
	}
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	return slices.Compact(modules)
}

// A source is one parsed Go file. Paths are relative to the module, with
// slashes.
type source struct {
	name string // relay/lease.go
	dir  string // relay
	set  *token.FileSet
	file *ast.File
}

// sources parses every Go file of the module, whatever its build tags.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(name, entry)
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		f, err := parse(filepath.ToSlash(relative), string(text))
		all = append(all, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// enter skips what the go command skips: hidden directories, testdata and
// nested modules.
func enter(name string, entry fs.DirEntry) error {
	if name == top {
		return nil
	}
	if strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(entry.Name(), "_") || entry.Name() == "testdata" {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func parse(name, text string) (source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	return source{name: name, dir: path.Dir(name), set: set, file: file}, err
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// isExample reports whether the file shows how packages work together, as an
// application would.
func (s source) isExample() bool {
	return s.isTest() && strings.HasPrefix(path.Base(s.name), "example")
}

func (s source) at(node ast.Node, format string, args ...any) string {
	p := s.set.Position(node.Pos())
	return fmt.Sprintf("%s:%d: %s", s.name, p.Line, fmt.Sprintf(format, args...))
}

// imports returns the imports that are not in the table.
func (s source) imports() []string {
	i := slices.IndexFunc(rules, func(r rule) bool { return match(r.from, s.dir) })
	if i < 0 {
		return []string{s.at(s.file.Name, "package %s has no rule; give it one in rules_test.go", s.dir)}
	}
	var violations []string
	for _, spec := range s.file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if !s.allows(rules[i], imported) {
			violations = append(violations, s.at(spec, "%s may not import %s", s.dir, imported))
		}
	}
	return violations
}

func (s source) allows(r rule, imported string) bool {
	if ours, ok := ourPackage(imported); ok {
		return s.allowsOurs(r, ours)
	}
	return standard(imported) || s.isTest() || slices.ContainsFunc(r.third, func(m string) bool {
		return m == "*" || imported == m || strings.HasPrefix(imported, m+"/")
	})
}

func (s source) allowsOurs(r rule, ours string) bool {
	if s.isTest() && (ours == s.dir || slices.Contains(slices.Concat(r.tests, testOnly, testsMayUse), ours)) {
		return true
	}
	if slices.Contains(r.ours, ours) {
		return true
	}
	linkable := (!slices.Contains(testOnly, ours) || slices.Contains(testOnly, s.dir)) && !strings.HasPrefix(ours, "cmd/")
	if s.isExample() {
		return linkable && !strings.HasPrefix(ours, "internal/")
	}
	return linkable && slices.Contains(r.ours, anything)
}

// ourPackage returns the directory of a package of this module.
func ourPackage(imported string) (string, bool) {
	if imported == module {
		return root, true
	}
	return strings.CutPrefix(imported, module+"/")
}

// standard reports whether a package is of the standard library: only there
// does the first element of the path have no dot.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// goroutines returns the places that start a goroutine without being listed: go
// statements and calls of a Go method, which wait and error groups have.
func (s source) goroutines() []string {
	if s.isTest() || slices.ContainsFunc(goroutineOwners, func(p string) bool { return match(p, s.name) }) {
		return nil
	}
	var violations []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		if startsGoroutine(n) {
			violations = append(violations, s.at(n, "%s is not listed as an owner of goroutines", s.name))
		}
		return true
	})
	return violations
}

func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		method, ok := n.Fun.(*ast.SelectorExpr)
		return ok && method.Sel.Name == "Go"
	}
	return false
}

// contexts returns the struct fields that are a context.Context.
func (s source) contexts() []string {
	if s.isTest() {
		return nil
	}
	var violations []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		if structure, ok := n.(*ast.StructType); ok {
			for _, field := range structure.Fields.List {
				if isContext(field.Type) {
					violations = append(violations, s.at(field, "a struct holds a context; pass it as a parameter"))
				}
			}
		}
		return true
	})
	return violations
}

func isContext(e ast.Expr) bool {
	if pointer, ok := e.(*ast.StarExpr); ok {
		e = pointer.X
	}
	selector, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	return ok && pkg.Name == "context" && selector.Sel.Name == "Context"
}

func match(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	if err != nil {
		panic(err) // a mistake in the tables of this package
	}
	return ok
}
