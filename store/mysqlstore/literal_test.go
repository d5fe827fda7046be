package mysqlstore

import (
	"testing"
	"time"
)

func TestArgumentsBecomeLiterals(t *testing.T) {
	at := time.Date(2026, 3, 29, 3, 30, 0, 1000, time.FixedZone("", 2*3600))
	for _, c := range []struct {
		name, statement string
		args            []any
		want            string
	}{
		{"numbers", "?1, ?2", []any{1, int64(-2)}, "1, -2"},
		{"by number, more than once", "?2 ?1 ?2", []any{1, 2}, "2 1 2"},
		{"two digits", "?10?1", []any{1, 2, 3, 4, 5, 6, 7, 8, 9, 0}, "01"},
		{"nothing", "?1", []any{nil}, "NULL"},
		{"truth", "?1?2", []any{true, false}, "10"},
		{"text cannot break out", "?1", []any{`'; DROP ?2 \`}, "X'273b2044524f50203f32205c'"},
		{"empty text", "?1", []any{""}, "X''"},
		{"time in UTC", "?1", []any{at}, "TIMESTAMP'2026-03-29 01:30:00.000001'"},
		{"list", "IN (?1)", []any{[]int64{1, 2}}, "IN (1,2)"},
		{"empty list", "IN (?1)", []any{[]int64(nil)}, "IN (NULL)"},
		{"list of texts", "IN (?1)", []any{[]string{"a", ""}}, "IN (X'61',X'')"},
		{"rows", "VALUES ?1", []any{[]row{{1, "a"}, {2, nil}}}, "VALUES (1,X'61'),(2,NULL)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := bind(c.statement, c.args...); err != nil || got != c.want {
				t.Errorf("got %s %v, want %s", got, err, c.want)
			}
		})
	}
}

func TestArgumentsThatHaveNoLiteralAreErrors(t *testing.T) {
	for _, c := range []struct {
		statement string
		args      []any
	}{
		{"?", []any{1}}, {"?2", []any{1}}, {"?0", []any{1}}, {"?1", []any{1.5}}, {"?1", []any{[]row{{struct{}{}}}}},
	} {
		if got, err := bind(c.statement, c.args...); err == nil {
			t.Errorf("%s became %s", c.statement, got)
		}
	}
}

func TestTimesStopWhereTheColumnDoes(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		from time.Time
		d    time.Duration
		want time.Time
	}{
		{now, time.Hour, now.Add(time.Hour)},
		{now, -time.Hour, now},
		{endOfTime.Add(-time.Second), time.Hour, endOfTime},
		{time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC), 0, endOfTime},
	} {
		if got := later(c.from, c.d); !got.Equal(c.want) {
			t.Errorf("%s + %s: got %s, want %s", c.from, c.d, got, c.want)
		}
	}
}
