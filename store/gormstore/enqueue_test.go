package gormstore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"gorm.io/gorm"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/gormstore"
)

// A purchase is a business row. Its hook enqueues in the transaction that GORM opens
// for every write.
type purchase struct {
	ID    int64
	Hook  func(tx *gorm.DB) error `gorm:"-"`
	Buyer string
}

func (p *purchase) AfterCreate(tx *gorm.DB) error {
	if p.Hook == nil {
		return nil
	}
	return p.Hook(tx)
}

func message(key string) outbox.Message {
	return outbox.Message{Topic: "shop.order.placed.v1", Key: key, Payload: []byte(`{"n":1}`)}
}

var errBusiness = errors.New("the business code is not happy")

func TestAnEventIsRolledBackWithItsBusinessRow(t *testing.T) {
	onEachBackend(t, func(t *testing.T, b *backend) {
		ok(t, b.db.AutoMigrate(&purchase{}))
		place := func(buyer string, result error) error {
			return b.db.Transaction(func(tx *gorm.DB) error {
				if err := tx.Create(&purchase{Buyer: buyer}).Error; err != nil {
					return err
				}
				if _, err := b.enqueue(t.Context(), tx, message(buyer)); err != nil {
					return err
				}
				return result
			})
		}

		if err := place("Eve", errBusiness); !errors.Is(err, errBusiness) {
			t.Fatalf("got %v", err)
		}
		b.holds(t, 0)

		ok(t, place("Ada", nil))
		b.holds(t, 1)
	})
}

func TestANestedTransactionRollsBackItsOwnEventsOnly(t *testing.T) {
	onEachBackend(t, func(t *testing.T, b *backend) {
		ok(t, b.db.AutoMigrate(&purchase{}))
		err := b.db.Transaction(func(tx *gorm.DB) error {
			ok(t, tx.Create(&purchase{Buyer: "Ada"}).Error)
			_, err := b.enqueue(t.Context(), tx, message("Ada"))
			ok(t, err)
			inner := tx.Transaction(func(tx *gorm.DB) error {
				ok(t, tx.Create(&purchase{Buyer: "Eve"}).Error)
				_, err := b.enqueue(t.Context(), tx, message("Eve"))
				ok(t, err)
				return errBusiness
			})
			if !errors.Is(inner, errBusiness) {
				t.Errorf("got %v", inner)
			}
			return nil
		})
		ok(t, err)
		b.holds(t, 1)
	})
}

func TestASessionOfATransactionIsInIt(t *testing.T) {
	onEachBackend(t, func(t *testing.T, b *backend) {
		ok(t, b.db.AutoMigrate(&purchase{}))
		err := b.db.Transaction(func(tx *gorm.DB) error {
			for _, session := range []*gorm.DB{
				tx.WithContext(t.Context()), tx.Session(&gorm.Session{NewDB: true}), tx.Session(&gorm.Session{PrepareStmt: true}),
				tx.Model(&purchase{}).Where("id = ?", 1), tx.Debug(),
			} {
				if _, err := b.enqueue(t.Context(), session, message("a")); err != nil {
					return err
				}
			}
			return errBusiness
		})
		if !errors.Is(err, errBusiness) {
			t.Fatalf("got %v", err)
		}
		b.holds(t, 0)
	})
}

func TestAHookEnqueuesInTheTransactionOfItsWrite(t *testing.T) {
	onEachBackend(t, func(t *testing.T, b *backend) {
		ok(t, b.db.AutoMigrate(&purchase{}))
		enqueueThen := func(result error) func(*gorm.DB) error {
			return func(tx *gorm.DB) error {
				if _, err := b.enqueue(t.Context(), tx, message("Ada")); err != nil {
					return err
				}
				return result
			}
		}

		if err := b.db.Create(&purchase{Hook: enqueueThen(errBusiness)}).Error; !errors.Is(err, errBusiness) {
			t.Fatalf("got %v", err)
		}
		b.holds(t, 0)
		ok(t, b.db.Create(&purchase{Hook: enqueueThen(nil)}).Error)
		b.holds(t, 1)

		without := b.db.Session(&gorm.Session{SkipDefaultTransaction: true})
		if err := without.Create(&purchase{Hook: enqueueThen(nil)}).Error; !errors.Is(err, gormstore.ErrNoTransaction) {
			t.Errorf("without a transaction of GORM: got %v", err)
		}
	})
}

// holds checks the number of business rows and of messages.
func (b *backend) holds(t *testing.T, want int64) {
	t.Helper()
	var rows, messages int64
	ok(t, b.db.Model(&purchase{}).Count(&rows).Error)
	ok(t, b.db.Table(b.table).Model(&gormstore.Message{}).Count(&messages).Error)
	if rows != want || messages != want {
		t.Errorf("%d business rows and %d messages, want %d of each", rows, messages, want)
	}
}

func TestADatabaseThatIsNotInATransactionIsRefused(t *testing.T) {
	onEachBackend(t, func(t *testing.T, b *backend) {
		ended := b.db.Begin()
		ok(t, ended.Rollback().Error)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		for _, tt := range []struct {
			name string
			db   *gorm.DB
			want error
		}{
			{"the pool", b.db, gormstore.ErrNoTransaction},
			{"a session", b.db.Session(&gorm.Session{NewDB: true}), gormstore.ErrNoTransaction},
			{"a session with prepared statements", b.db.Session(&gorm.Session{PrepareStmt: true}), gormstore.ErrNoTransaction},
			{"a query", b.db.Where("id = ?", 1), gormstore.ErrNoTransaction},
			{"a dry run", b.db.Session(&gorm.Session{DryRun: true}), gorm.ErrDryRunModeUnsupported},
			{"nothing", nil, gormstore.ErrNoTransaction},
			{"an empty one", &gorm.DB{}, gormstore.ErrNoTransaction},
			{"a transaction that could not begin", b.db.WithContext(cancelled).Begin(), context.Canceled},
			{"a transaction that has ended", ended, sql.ErrTxDone},
		} {
			if _, err := b.enqueue(t.Context(), tt.db, message("a")); !errors.Is(err, tt.want) {
				t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
			}
		}
		err := b.db.Connection(func(conn *gorm.DB) error {
			_, err := b.enqueue(t.Context(), conn, message("a"))
			return err
		})
		if !errors.Is(err, gormstore.ErrNoTransaction) {
			t.Errorf("a connection: got %v", err)
		}
		stats, err := b.store.Stats(t.Context())
		ok(t, err)
		if stats.Pending != 0 {
			t.Errorf("%d messages were written", stats.Pending)
		}
	})
}
