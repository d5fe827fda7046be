// Package sqlfile turns a directory of .sql files into the statements of a
// store.
//
// A file holds one statement under a comment header that gives its reasoning:
// purpose, locks, index, invariant. Identifiers vary per outbox table, so they
// are written as {{placeholders}} and filled in once, when the store is made.
// A statement that renders is complete: an unknown placeholder, a missing file
// and a file nobody uses are errors, all reported together and by name.
//
// The package does not parse SQL. It cannot tell whether a statement is valid,
// and it does not escape what it fills in: pass only what Vars returns and
// constants of the program. User input reaches SQL as a parameter.
package sqlfile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// A File is one rendered .sql file.
type File struct {
	// Header is the leading comment as written, without the comment marks
	// and with its placeholders untouched. It is for people: documentation
	// and plan tests.
	Header string

	// Statement is what to execute: rendered, without the header, which
	// would otherwise travel to the server on every execution, and without
	// the closing semicolon.
	Statement string
}

// Load reads and renders every .sql file directly in dir, keyed by file name.
// The error joins all mistakes found.
func Load(fsys fs.FS, dir string, vars map[string]string) (map[string]File, error) {
	names, err := fs.Glob(fsys, path.Join(dir, "*.sql"))
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("list %s: no .sql files: %w", dir, fs.ErrNotExist)
	}
	files := make(map[string]File, len(names))
	var errs []error
	for _, name := range names {
		file, err := load(fsys, name, vars)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		files[path.Base(name)] = file
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return files, nil
}

// Render loads dir into *stmts, a struct whose string fields carry the name of
// their file: Claim string `sql:"claim.sql"`. The fields must be exported, the
// type need not be. Files and tagged fields must match one to one; a file
// without a field is dead SQL.
func Render(fsys fs.FS, dir string, vars map[string]string, stmts any) error {
	files, err := Load(fsys, dir, vars)
	if err != nil {
		return err
	}
	target := reflect.ValueOf(stmts)
	if target.Kind() != reflect.Pointer || target.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("render %s: want a pointer to a struct, not %T", dir, stmts)
	}
	target = target.Elem()

	var errs []error
	used := map[string]bool{}
	for i := range target.NumField() {
		field := target.Type().Field(i)
		name, tagged := field.Tag.Lookup("sql")
		if !tagged {
			continue
		}
		file, found := files[name]
		switch {
		case !field.IsExported() || field.Type.Kind() != reflect.String:
			errs = append(errs, fmt.Errorf("field %s: want an exported string", field.Name))
		case !found:
			errs = append(errs, fmt.Errorf("field %s: %s: %w", field.Name, path.Join(dir, name), fs.ErrNotExist))
		default:
			target.Field(i).SetString(file.Statement)
		}
		used[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !used[name] {
			errs = append(errs, fmt.Errorf("%s: no field uses it", path.Join(dir, name)))
		}
	}
	return errors.Join(errs...)
}

var placeholder = regexp.MustCompile(`\{\{.*?\}\}`)

// Expand fills in the placeholders of text in one pass, so that a value is
// never expanded again. The error names every placeholder vars does not have.
func Expand(text string, vars map[string]string) (string, error) {
	var unknown []string
	out := placeholder.ReplaceAllStringFunc(text, func(p string) string {
		value, ok := vars[p[2:len(p)-2]]
		if !ok && !slices.Contains(unknown, p) {
			unknown = append(unknown, p)
		}
		return value
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("unknown placeholder %s", strings.Join(unknown, ", "))
	}
	return out, nil
}

func load(fsys fs.FS, name string, vars map[string]string) (File, error) {
	raw, err := fs.ReadFile(fsys, name)
	if err != nil {
		return File{}, err
	}
	header, body := splitHeader(string(raw))
	if header == "" {
		return File{}, errors.New("no header comment")
	}
	statement := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(body), ";"))
	if statement == "" {
		return File{}, errors.New("no statement")
	}
	if several(statement) {
		return File{}, errors.New("more than one statement")
	}
	statement, err = Expand(statement, vars)
	return File{Header: header, Statement: statement}, err
}

// splitHeader cuts the comment lines a file starts with.
func splitHeader(text string) (header, body string) {
	var lines []string
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(line, "--")
		if !ok {
			break
		}
		lines = append(lines, strings.TrimSpace(comment))
		text = text[len(line):]
	}
	return strings.Join(lines, "\n"), text
}

// several reports whether a line other than the last closes a statement.
// Drivers disagree on what several statements in one call mean.
func several(statement string) bool {
	for line := range strings.Lines(statement) {
		line = strings.TrimSpace(line)
		if strings.HasSuffix(line, ";") && !strings.HasPrefix(line, "--") {
			return true
		}
	}
	return false
}
