package mysqlstore

import (
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/go-outbox/outbox"
)

// Error numbers of the server. This file is the only one that knows them.
const (
	duplicateEntry   = 1062
	unknownDatabase  = 1049
	unknownColumn    = 1054
	noSuchTable      = 1146
	changedSinceRead = 1020 // MariaDB with innodb_snapshot_isolation
	lockWaitTimeout  = 1205
	deadlock         = 1213
	readOnlyServer   = 1290
	readOnlyTx       = 1792
	constraintFailed = 4025 // MariaDB
	checkViolated    = 3819 // MySQL
)

// number is the server's error number in err's chain, or 0.
func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// again reports whether a transaction failed only because of another one and may be
// repeated as a whole.
func again(err error) bool {
	switch number(err) {
	case deadlock, lockWaitTimeout, changedSinceRead:
		return true
	}
	return false
}

// explain adds the operation to err and, where the number tells what is wrong, what to
// do. The driver's error stays in the chain, so that callers can see a deadlock for what
// it is.
func (s *Store) explain(op string, err error) error {
	switch number(err) {
	case 0:
		if err == nil {
			return nil
		}
	case noSuchTable, unknownColumn, unknownDatabase:
		err = outbox.ErrSchema.With("table", fmt.Sprintf("%s is missing or too old: run `outbox migrate up --table %s`",
			s.cfg.Table, s.cfg.Table)).Wrap(err)
	case constraintFailed, checkViolated:
		err = fmt.Errorf("a row is refused by the table (%s_times: a zero date; %s_topic: no topic; %s_event_id_form: no lower-case UUID): %w",
			s.name, s.name, s.name, err)
	case readOnlyServer, readOnlyTx:
		err = fmt.Errorf("the server takes no writes (is it a replica?), connect to the primary: %w", err)
	}
	return fmt.Errorf("%s: %w", op, err)
}
