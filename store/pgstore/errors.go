package pgstore

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-outbox/outbox"
)

// SQLSTATEs the store knows. This file is the only one that does.
const (
	undefinedTable  = "42P01"
	undefinedColumn = "42703"
	invalidSchema   = "3F000"
	noPrivilege     = "42501"
	stalePlan       = "0A000" // cached plan must not change result type
	wrongType       = "42804"
	wrongBinary     = "22P03"
	wrongFormats    = "08P01"
	readOnly        = "25006"
	lockTimeout     = "55P03"
)

// explain adds the operation to err and, where the code tells what is wrong, what
// to do. The driver's error stays in the chain, so that callers can still see a
// serialization failure for what it is.
func (s *Store) explain(op string, err error) error {
	switch code(err) {
	case "":
		if err == nil {
			return nil
		}
	case undefinedTable, undefinedColumn, invalidSchema:
		err = outbox.ErrSchema.With("", fmt.Sprintf("%s is missing or too old: run `outbox migrate up --table %s`",
			s.cfg.Table, s.cfg.Table)).Wrap(err)
	case readOnly:
		err = fmt.Errorf("the server takes no writes (is it a standby?): %w", err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// code is the SQLSTATE in err's chain, or "".
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// stale reports whether the description that a connection remembers no longer fits
// the table, because a migration has changed it. The driver has forgotten it by
// now: a second try describes the statement anew.
func stale(err error) bool {
	switch code(err) {
	case stalePlan, wrongType, wrongBinary, wrongFormats:
		return true
	}
	return false
}

// again runs a statement that may be sent twice, and sends it once more when only
// its description was stale.
func again(run func() error) error {
	err := run()
	if stale(err) {
		err = run()
	}
	return err
}

// unknown reports whether err leaves open what the server did.
func unknown(err error) bool {
	return err != nil && code(err) == "" && !pgconn.SafeToRetry(err)
}
