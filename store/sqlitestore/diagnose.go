package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// Diagnose looks for what is wrong with the file and the table, and calls report for
// each thing it has looked at, with the level ok, warning or error and how to mend
// it. It changes nothing.
func (s *Store) Diagnose(ctx context.Context, report func(name, level, text, fix string)) error {
	err := s.read(ctx, func(ctx context.Context, conn *sql.Conn) error {
		for _, look := range []func(context.Context, *sql.Conn, func(name, level, text, fix string)) error{s.journal, s.indexes, s.pages} {
			if err := look(ctx, conn, report); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("diagnose: %w", err)
	}
	return nil
}

// journal: only with a write-ahead log do readers and the writer not wait for each
// other.
func (s *Store) journal(ctx context.Context, conn *sql.Conn, report func(name, level, text, fix string)) error {
	var mode string
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		report("journal", "warning", "the journal mode is "+mode+": whoever reads keeps the writer waiting", "PRAGMA journal_mode = WAL, once, while nobody else has the file open")
		return nil
	}
	report("journal", "ok", "the file has a write-ahead log", "")
	return nil
}

func (s *Store) indexes(ctx context.Context, conn *sql.Conn, report func(name, level, text, fix string)) error {
	rows, err := conn.QueryContext(ctx, "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ?", s.cfg.Table)
	if err != nil {
		return err
	}
	defer rows.Close()
	var have []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		have = append(have, name)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	sound := true
	for _, suffix := range []string{"_due", "_held", "_dead", "_published"} {
		if want := s.cfg.Table + suffix; !slices.Contains(have, want) {
			sound = false
			report("indexes", "error", "the index "+want+" is missing", "create it as `outbox migrate print --table "+s.cfg.Table+"` says")
		}
	}
	if sound {
		report("indexes", "ok", "are there", "")
	}
	return nil
}

// slackPages and slackShare are from when on a file is mostly empty.
const (
	slackPages = 100_000
	slackShare = 0.5
)

func (s *Store) pages(ctx context.Context, conn *sql.Conn, report func(name, level, text, fix string)) error {
	var all, free int64
	err := conn.QueryRowContext(ctx, "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count").Scan(&all, &free)
	if err != nil {
		return err
	}
	if free > slackPages && float64(free) > slackShare*float64(all) {
		report("file", "warning", fmt.Sprintf("%d of %d pages are empty", free, all), "VACUUM, while nobody else has the file open")
		return nil
	}
	report("file", "ok", fmt.Sprintf("%d of %d pages are empty", free, all), "")
	return nil
}
