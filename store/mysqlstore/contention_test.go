package mysqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/internal/testenv"
	"github.com/go-outbox/outbox/relay"
	"github.com/go-outbox/outbox/store/mysqlstore"
)

// soak is how long a test that looks for rare collisions runs.
func soak(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("OUTBOX_SOAK_SECONDS")
	if text == "" {
		return 5 * time.Second
	}
	seconds, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(seconds) * time.Second
}

const (
	producers = 16
	relays    = 4
)

// Producers write business rows and events at the server's default isolation, REPEATABLE
// READ, while relays share the table, fail now and then, and delete or keep what they
// publish.
func TestSixteenProducersAndFourRelaysLoseNothingAndHardlyCollide(t *testing.T) {
	for _, remove := range []bool{false, true} {
		t.Run(fmt.Sprintf("delete %t", remove), func(t *testing.T) {
			m := testenv.MySQL(t)
			db := m.Open(t, "interpolateParams=true")
			db.SetMaxIdleConns(producers)
			store := newStore(t, db)
			migrated(t, store)
			mustExec(t, db, "CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, producer INT NOT NULL, n INT NOT NULL) ENGINE=InnoDB")
			if err := store.Resize(t.Context(), relays); err != nil {
				t.Fatal(err)
			}

			crowd := &crowd{committed: map[uuid.UUID]bool{}, delivered: map[uuid.UUID]int{}}
			stop := crowd.relay(t, m, remove)
			begun := time.Now()
			crowd.produce(t, db, store, begun.Add(soak(t)))
			took := time.Since(begun)
			crowd.awaitDelivery(t)
			drained := time.Since(begun)
			stop()

			crowd.check(t, store)
			t.Logf("%d transactions and %d messages in %s (%.0f tx/s), all delivered after %s; %d deadlocks, %d lock timeouts, %d delivered more than once",
				crowd.transactions.Load(), len(crowd.committed), took.Round(time.Millisecond), float64(crowd.transactions.Load())/took.Seconds(),
				drained.Round(time.Millisecond), crowd.deadlocks.Load(), crowd.timeouts.Load(), crowd.repeated())
		})
	}
}

// A crowd is producers and relays on one table, and what they saw.
type crowd struct {
	transactions, deadlocks, timeouts atomic.Int64

	mu        sync.Mutex
	committed map[uuid.UUID]bool
	delivered map[uuid.UUID]int
	left      int // committed and not delivered
}

func (c *crowd) produce(t *testing.T, db *sql.DB, store *mysqlstore.Store, until time.Time) {
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for n := 0; time.Now().Before(until); n++ {
				ids, err := order(t.Context(), db, store, p, n)
				switch number(err) {
				case 0:
				case 1213:
					c.deadlocks.Add(1)
					continue
				case 1205:
					c.timeouts.Add(1)
					continue
				}
				if err != nil {
					t.Errorf("producer %d: %v", p, err)
					return
				}
				c.transactions.Add(1)
				c.commit(ids)
			}
		})
	}
	wg.Wait()
}

func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// order is one business transaction with one to three events, now and then with one that
// exists already.
func order(ctx context.Context, db *sql.DB, store *mysqlstore.Store, producer, n int) ([]uuid.UUID, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // after a commit it does nothing
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (producer, n) VALUES (?, ?)", producer, n); err != nil {
		return nil, err
	}
	msgs := make([]outbox.Message, 1+rand.N(3))
	ids := make([]uuid.UUID, len(msgs))
	for i := range msgs {
		ids[i] = uuid.Must(uuid.NewV7())
		msgs[i] = message(fmt.Sprintf("customer-%d", rand.N(200)))
		msgs[i].EventID = ids[i]
	}
	if len(msgs) == 1 {
		_, err = store.Enqueue(ctx, tx, msgs[0])
	} else {
		_, err = store.EnqueueMany(ctx, tx, msgs)
	}
	if err == nil && n%50 == 0 {
		_, err = store.Enqueue(ctx, tx, msgs[0]) // as a retry of the application would
	}
	if err != nil {
		return nil, err
	}
	return ids, tx.Commit()
}

func (c *crowd) commit(ids []uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		c.committed[id] = true
		if c.delivered[id] == 0 {
			c.left++
		}
	}
}

// relay starts the relays, each with a pool of its own as if it were a process.
func (c *crowd) relay(t *testing.T, m *testenv.MySQLDB, remove bool) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range relays {
		r, err := relay.New(newStore(t, m.Open(t)), outbox.DispatcherFunc(c.dispatch), relay.Config{
			Shards: relays, DeleteOnPublish: remove, Poll: 100 * time.Millisecond,
			Retries: outbox.Retries{Default: outbox.RetryPolicy{Base: 20 * time.Millisecond, Max: 100 * time.Millisecond, Jitter: -1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Errorf("relay: %v", err)
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// dispatch fails one time in a hundred.
func (c *crowd) dispatch(_ context.Context, msg outbox.DispatchedMessage) error {
	if rand.N(100) == 0 {
		return errors.New("the destination is having a bad day")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := msg.Meta.EventID
	c.delivered[id]++
	if c.delivered[id] == 1 && c.committed[id] {
		c.left--
	}
	return nil
}

func (c *crowd) awaitDelivery(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		c.mu.Lock()
		left := c.left
		c.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d messages are not delivered after a minute", left)
		}
	}
}

func (c *crowd) check(t *testing.T, store *mysqlstore.Store) {
	t.Helper()
	for id := range c.committed {
		if c.delivered[id] == 0 {
			t.Errorf("%s was committed and not delivered", id)
		}
	}
	for id := range c.delivered {
		if !c.committed[id] {
			t.Errorf("%s was delivered and not committed", id)
		}
	}
	if len(c.committed) == 0 {
		t.Error("nothing was committed")
	}
	collisions := c.deadlocks.Load() + c.timeouts.Load()
	if all := collisions + c.transactions.Load(); float64(collisions) > 0.0001*float64(all) {
		t.Errorf("%d of %d transactions collided", collisions, all)
	}
	stats, err := store.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.Pending+stats.InFlight+stats.Dead > 0 {
		t.Errorf("left behind: %+v", stats)
	}
}

func (c *crowd) repeated() (n int) {
	for _, times := range c.delivered {
		if times > 1 {
			n++
		}
	}
	return n
}
