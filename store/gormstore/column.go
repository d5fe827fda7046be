package gormstore

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/schema"
)

// columns/*.sql is what follows the name of the first column in CREATE TABLE: its type,
// and all other columns. The tests compare them with the versioned schemas.
//
//go:embed columns/*.sql
var columns embed.FS

// Sequence is the number of a message in its table.
type Sequence int64

// GormDBDataType is the definition of the table; see Message.
func (Sequence) GormDBDataType(db *gorm.DB, _ *schema.Field) string {
	text, err := columns.ReadFile("columns/" + db.Name() + ".sql")
	if err != nil {
		return "" // GORM's own choice, for a database that no store is for
	}
	return strings.TrimSpace(string(text))
}

// A Time is a point in time as the tables hold it: timestamptz in PostgreSQL, DATETIME(6)
// in UTC in MySQL, microseconds since 1970 in SQLite. The zero value is NULL.
type Time struct{ time.Time }

// At is a time for conditions:
//
//	db.Where("created_at < ?", gormstore.At(t))
func At(t time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{t.UTC()}
}

// GormDataType is GORM's general name of the type.
func (Time) GormDataType() string { return string(schema.Time) }

// GormValue writes the time as the database of db holds it.
func (t Time) GormValue(_ context.Context, db *gorm.DB) clause.Expr {
	var value any
	switch {
	case t.IsZero():
	case db.Name() == "sqlite":
		value = t.UnixMicro()
	case db.Name() == "mysql":
		value = t.UTC().Format(datetime)
	default:
		value = t.UTC()
	}
	return clause.Expr{SQL: "?", Vars: []any{value}}
}

const datetime = "2006-01-02 15:04:05.000000"

// Scan reads what any of the drivers gives.
func (t *Time) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*t = Time{}
	case time.Time:
		*t = Time{v} // Message.AfterFind knows whether its location is true
	case int64:
		*t = Time{time.UnixMicro(v).UTC()}
	case []byte:
		return t.parse(string(v))
	case string:
		return t.parse(v)
	default:
		return fmt.Errorf("a time cannot be read from %T", value)
	}
	return nil
}

func (t *Time) parse(text string) error {
	parsed, err := time.ParseInLocation("2006-01-02 15:04:05.999999", text, time.UTC)
	if err != nil {
		return err
	}
	*t = Time{parsed}
	return nil
}

// parseRoutes reads a routes_done: text[] in PostgreSQL, JSON elsewhere.
func parseRoutes(text string) (names []string, err error) {
	switch {
	case text == "":
		return nil, nil
	case strings.HasPrefix(text, "{"):
		return splitArray(text), nil
	}
	err = json.Unmarshal([]byte(text), &names)
	return names, err
}

// splitArray reads a text[] of one dimension as PostgreSQL prints it: {a,"b \"c\""}.
func splitArray(text string) (names []string) {
	var name strings.Builder
	quoted, more := false, false
	body := strings.TrimSuffix(text[1:], "}")
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '\\' && i+1 < len(body):
			i++
			name.WriteByte(body[i])
		case c == '"':
			quoted = !quoted
			more = true
		case c == ',' && !quoted:
			names = append(names, name.String())
			name.Reset()
			more = true
		default:
			name.WriteByte(c)
		}
	}
	if more || name.Len() > 0 {
		names = append(names, name.String())
	}
	return names
}
