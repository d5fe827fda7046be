package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-outbox/outbox/internal/failpoint"
	"github.com/go-outbox/outbox/internal/sqlfile"
)

// A Migration is one version, rendered for one outbox. Up and Down are lists of
// statements and end with the one that records the version, so that whoever
// applies them, this package, psql or goose, leaves the same trace.
type Migration struct {
	Version  int
	Name     string
	Up, Down []string
}

// A Set is all migrations of one outbox. Create it with Load; it is read-only
// after that and may be shared.
type Set struct {
	// Table is the outbox as its operator writes it.
	Table string

	// Migrations holds version v at index v-1.
	Migrations []Migration

	// Atlas writes the latest schema as Atlas HCL, which cannot be derived
	// from SQL text. The store sets it; nil means the format is not offered.
	Atlas func(w io.Writer) error
}

var (
	fileName  = regexp.MustCompile(`^([0-9]{4})_([a-z0-9_]+)\.(up|down)\.sql$`)
	separator = regexp.MustCompile(`(?m)^-- statement[ \t\r]*$`)
)

// record and forget leave applied_at to the default of its column: the one
// value the databases spell differently.
const (
	record = `INSERT INTO {{migration}} (table_name, version, name) VALUES ('{{prefix}}', %d, '%s')`
	forget = `DELETE FROM {{migration}} WHERE table_name = '{{prefix}}' AND version = %d`
)

// Load reads NNNN_name.up.sql and NNNN_name.down.sql from dir and renders them
// with vars, which are those of sqlfile.Vars and whatever else the files use.
// Versions must run from 1 without holes and have both directions, and nothing
// else may be in dir. The error joins all mistakes found.
//
// Statements of a file are separated by a line that reads exactly
//
//	-- statement
//
// and by nothing else: semicolons also occur in trigger bodies and dollar
// quotes, which only a parser per dialect could tell apart.
func Load(fsys fs.FS, dir, table string, vars map[string]string) (Set, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return Set{}, fmt.Errorf("load migrations: %w", err)
	}
	var errs []error
	byVersion := map[int]Migration{}
	for _, entry := range entries {
		if err := read(fsys, path.Join(dir, entry.Name()), vars, byVersion); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", entry.Name(), err))
		}
	}
	set := Set{Table: table}
	for v := 1; v <= len(byVersion); v++ {
		m, err := complete(byVersion[v], v, vars)
		if err != nil {
			errs = append(errs, fmt.Errorf("version %d: %w", v, err))
		}
		set.Migrations = append(set.Migrations, m)
	}
	if len(entries) == 0 {
		errs = append(errs, fmt.Errorf("%s is empty", dir))
	}
	if err := errors.Join(errs...); err != nil {
		return Set{}, fmt.Errorf("load migrations: %w", err)
	}
	return set, nil
}

// read adds one file to the migration it belongs to.
func read(fsys fs.FS, name string, vars map[string]string, byVersion map[int]Migration) error {
	parts := fileName.FindStringSubmatch(path.Base(name))
	if parts == nil {
		return errors.New("not named NNNN_name.up.sql or NNNN_name.down.sql")
	}
	version, err := strconv.Atoi(parts[1])
	if err != nil || version == 0 {
		return errors.New("versions start at 0001")
	}
	m, seen := byVersion[version]
	if seen && m.Name != parts[2] {
		return fmt.Errorf("version %d is also named %s", version, m.Name)
	}
	m.Version, m.Name = version, parts[2]
	target := &m.Up
	if parts[3] == "down" {
		target = &m.Down
	}
	*target, err = statements(fsys, name, vars)
	byVersion[version] = m
	return err
}

// complete checks that m is all of version v and adds the recording statements.
func complete(m Migration, v int, vars map[string]string) (Migration, error) {
	switch {
	case m.Version == 0:
		return m, errors.New("missing")
	case m.Up == nil:
		return m, errors.New("no usable up file")
	case m.Down == nil:
		return m, errors.New("no usable down file")
	}
	up, err := sqlfile.Expand(fmt.Sprintf(record, v, m.Name), vars)
	if err != nil {
		return m, err
	}
	down, err := sqlfile.Expand(fmt.Sprintf(forget, v), vars)
	m.Up, m.Down = append(m.Up, up), append(m.Down, down)
	return m, err
}

func statements(fsys fs.FS, name string, vars map[string]string) ([]string, error) {
	raw, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	text, err := sqlfile.Expand(string(raw), vars)
	if err != nil {
		return nil, err
	}
	list := separator.Split(text, -1)
	for i, statement := range list {
		statement = strings.TrimSpace(statement)
		last := statement[strings.LastIndexByte(statement, '\n')+1:]
		switch {
		case statement == "":
			return nil, fmt.Errorf("statement %d is empty", i+1)
		case strings.Contains(last, "--"):
			// Print closes a statement with a semicolon, which a comment
			// would swallow. This also catches a chunk of comments alone.
			return nil, fmt.Errorf("statement %d ends in a comment", i+1)
		}
		list[i] = strings.TrimSuffix(statement, ";")
	}
	return list, nil
}

// Latest is the highest version this program knows.
func (s Set) Latest() int { return len(s.Migrations) }

// Validate compares the version of a database with the one this program was
// built with. It returns a *TooOldError, a *TooNewError or nil.
func (s Set) Validate(current int) error {
	switch latest := s.Latest(); {
	case current < latest:
		return &TooOldError{Table: s.Table, Have: current, Want: latest}
	case current > latest:
		return &TooNewError{Table: s.Table, Have: current, Want: latest}
	}
	return nil
}

// A step is one migration in one direction.
type step struct {
	version    int
	label      string
	statements []string
}

// path lists the steps between two versions, up or down.
func (s Set) path(from, to int) []step {
	var steps []step
	for v := from + 1; v <= to; v++ {
		m := s.Migrations[v-1]
		steps = append(steps, step{v, fmt.Sprintf("%04d_%s up", v, m.Name), m.Up})
	}
	for v := from; v > to; v-- {
		m := s.Migrations[v-1]
		steps = append(steps, step{v, fmt.Sprintf("%04d_%s down", v, m.Name), m.Down})
	}
	return steps
}

func (s step) run(ctx context.Context, tx Tx) error {
	for i, statement := range s.statements {
		if err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: statement %d: %w", s.label, i+1, err)
		}
		failpoint.Hit(failpoint.Migrating)
	}
	return nil
}
