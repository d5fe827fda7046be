package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/config"
)

// A session is an opened database and the tables that a command is about. Close it.
type session struct {
	cfg    *config.Config
	db     *database
	stores []store
}

// open opens the configured tables, whose schema must be in place.
func (a *app) open(cmd *cobra.Command) (*session, error) {
	cfg, err := a.loadTables(cmd)
	if err != nil {
		return nil, err
	}
	db, stores, err := checked(cmd.Context(), cfg, cfg.Relay.Tables)
	if err != nil {
		return nil, err
	}
	return &session{cfg, db, stores}, nil
}

// openOne is open for commands that change a single table: which one is never left
// to a list that somebody else wrote.
func (a *app) openOne(cmd *cobra.Command) (*session, store, error) {
	cfg, err := a.loadTables(cmd)
	if err != nil {
		return nil, nil, err
	}
	if n := len(cfg.Relay.Tables); n != 1 {
		return nil, nil, usagef("%d tables are configured: name the one to change with --table", n)
	}
	s, err := a.open(cmd)
	if err != nil {
		return nil, nil, err
	}
	return s, s.stores[0], nil
}

func (s *session) close() { s.db.close() }

// now is the clock of a store, which every time in it is of.
func now(ctx context.Context, s store) (time.Time, error) {
	stats, err := s.Stats(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the clock of %s: %w", s.Table(), err)
	}
	return stats.Now, nil
}

// findJob looks for a bulk change in the tables, in order.
func findJob(ctx context.Context, stores []store, id uuid.UUID) (store, outbox.Job, error) {
	return search(stores, func(s store) (outbox.Job, error) { return s.Job(ctx, id) }, fmt.Sprintf(
		"no job %s in %s: see `outbox jobs`", id, tableNames(stores)))
}

// find looks for an event in the tables, in order.
func find(ctx context.Context, stores []store, id uuid.UUID) (store, *outbox.Record, error) {
	return search(stores, func(s store) (*outbox.Record, error) { return s.Get(ctx, id) }, fmt.Sprintf(
		"no event %s in %s: it may be in another table, or deleted after its retention", id, tableNames(stores)))
}

// search asks one table after the other.
func search[T any](stores []store, get func(store) (T, error), missing string) (store, T, error) {
	var none T
	for _, s := range stores {
		found, err := get(s)
		switch {
		case err == nil:
			return s, found, nil
		case !errors.Is(err, outbox.ErrNotFound):
			return nil, none, fmt.Errorf("look into %s: %w", s.Table(), err)
		}
	}
	return nil, none, outbox.ErrNotFound.With("", missing)
}

func tableNames(stores []store) string {
	names := make([]string, len(stores))
	for i, s := range stores {
		names[i] = s.Table()
	}
	return strings.Join(names, ", ")
}
