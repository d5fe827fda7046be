package mysqlstore

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// bind writes arguments into a statement of ours as literals, in place of ?1, ?2 and so
// on. A parameter of the driver costs a round trip to prepare it, unless the caller's DSN
// says interpolateParams, and a list of any length cannot be one at all. Texts and bytes
// are written in hexadecimal, which no sql_mode and no character set reads differently
// and which nothing can break out of.
func bind(statement string, args ...any) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(statement, "?")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		digits := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		n, err := strconv.Atoi(rest[:digits])
		if err != nil || n < 1 || n > len(args) {
			return "", fmt.Errorf("statement has no argument ?%s", rest[:digits])
		}
		if err := literal(&b, args[n-1]); err != nil {
			return "", fmt.Errorf("argument ?%d: %w", n, err)
		}
		statement = rest[digits:]
	}
}

// A row is a list of values in parentheses, as after VALUES.
type row []any

func literal(b *strings.Builder, value any) error {
	switch v := value.(type) {
	case nil:
		b.WriteString("NULL")
	case bool:
		b.WriteByte('0' + bit(v))
	case int:
		b.WriteString(strconv.Itoa(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case string:
		quote(b, v)
	case time.Time:
		b.WriteString("TIMESTAMP'" + v.UTC().Format(datetime) + "'")
	case []int64:
		return list(b, v)
	case []string:
		return list(b, v)
	case []row:
		return list(b, v)
	case row:
		b.WriteByte('(')
		err := list(b, v)
		b.WriteByte(')')
		return err
	default:
		return fmt.Errorf("no literal for a %T", value)
	}
	return nil
}

// list writes values with commas between them. An empty list is NULL, which nothing is in.
func list[T any](b *strings.Builder, values []T) error {
	if len(values) == 0 {
		b.WriteString("NULL")
	}
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := literal(b, v); err != nil {
			return err
		}
	}
	return nil
}

func quote(b *strings.Builder, text string) {
	b.WriteString("X'")
	_, _ = hex.NewEncoder(b).Write([]byte(text)) // a Builder does not fail
	b.WriteByte('\'')
}

func bit(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// datetime is how the server reads and writes a DATETIME(6).
const datetime = "2006-01-02 15:04:05.000000"

// endOfTime is the latest DATETIME(6).
var endOfTime = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)

// moment is a time in microseconds; 0 stands for NULL.
func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// later is now+d, as far as a DATETIME reaches.
func later(now time.Time, d time.Duration) time.Time {
	t := now.Add(max(d, 0))
	if t.After(endOfTime) {
		return endOfTime
	}
	return t
}
