package mysqlstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/go-outbox/outbox"
)

func TestErrorsOfTheServerAreUnderstood(t *testing.T) {
	s, err := newStore(Config{Table: "shop_outbox"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		number uint16
		again  bool
		says   string
	}{
		{deadlock, true, "op: "},
		{lockWaitTimeout, true, "op: "},
		{changedSinceRead, true, "op: "},
		{duplicateEntry, false, "op: "},
		{noSuchTable, false, "outbox migrate up --table shop_outbox"},
		{unknownColumn, false, "outbox migrate up --table shop_outbox"},
		{unknownDatabase, false, "outbox migrate up --table shop_outbox"},
		{readOnlyServer, false, "connect to the primary"},
		{readOnlyTx, false, "connect to the primary"},
		{constraintFailed, false, "zero date"},
		{checkViolated, false, "zero date"},
	} {
		cause := fmt.Errorf("wrapped: %w", &mysql.MySQLError{Number: c.number, Message: "CONSTRAINT `shop_outbox_times` failed"})
		got := s.explain("op", cause)
		if again(cause) != c.again || !strings.Contains(got.Error(), c.says) || !errors.Is(got, cause) {
			t.Errorf("%d: again %t, %v", c.number, again(cause), got)
		}
	}
	if again(nil) || again(errors.New("else")) || s.explain("op", nil) != nil {
		t.Error("no error of the server is taken for one")
	}
	if !errors.Is(s.explain("op", &mysql.MySQLError{Number: noSuchTable}), outbox.ErrSchema) {
		t.Error("a missing table is no ErrSchema")
	}
}

func TestServersThatAreTooOldAreRefused(t *testing.T) {
	for _, c := range []struct{ version, says string }{
		{"10.11.19-MariaDB-0+deb12u1", ""},
		{"10.6.0-MariaDB", ""},
		{"11.8.3-MariaDB-log", ""},
		{"5.5.5-10.11.2-MariaDB", ""},
		{"8.0.16", ""},
		{"8.4.3-commercial", ""},
		{"9.1.0", ""},
		{"10.5.29-MariaDB", "MariaDB 10.5.29 is too old: upgrade it to 10.6.0 or later"},
		{"5.5.68-MariaDB", "MariaDB 5.5.68 is too old"},
		{"5.7.44-log", "MySQL 5.7.44 is too old: upgrade it to 8.0.16 or later"},
		{"8.0.15", "MySQL 8.0.15 is too old"},
		{"CockroachDB", "not one of MariaDB or MySQL"},
	} {
		err := checkVersion(c.version)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", c.version, err)
		case c.says != "" && (!errors.Is(err, outbox.ErrSchema) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: got %v, want %q", c.version, err, c.says)
		}
	}
}
