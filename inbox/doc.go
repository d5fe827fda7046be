// Package inbox makes the effect of an event happen once, although the event is
// delivered at least once.
//
// Once records the event in the consumer's own transaction, next to what the event
// changes there. Both are committed or neither is: a delivery that comes again finds
// the record and is skipped, and one whose handler failed, panicked or was killed left
// no record and is handled. A concurrent delivery of the same event waits for the first
// to end. The record is one statement.
//
//	tx, err := db.BeginTx(ctx, nil)
//	…
//	defer tx.Rollback()
//	if _, err := box.Once(ctx, tx, "billing", event.Meta.EventID, func() error {
//		_, err := tx.ExecContext(ctx, `INSERT INTO invoice …`)
//		return err
//	}); err != nil {
//		return err // not acknowledged: it comes again
//	}
//	if err := tx.Commit(); err != nil {
//		return err
//	}
//	// now acknowledge
//
// What Once covers is what tx covers. A mail that the handler sends or a request to
// another system is not part of the transaction and may happen again; enqueue it in the
// same transaction instead. A record protects until Clean removes it, so the retention
// must be longer than the time after which an event may still be delivered, replays by
// operators included. The order of events is not the inbox's business.
//
// This package is for database/sql on PostgreSQL, MySQL, MariaDB and SQLite; the driver
// is the application's choice. Package pginbox does the same for pgx.
package inbox
