package pgstore

import (
	"context"
	"time"
)

// DiagnoseWithin is Diagnose with another idea of a long transaction.
func (s *Store) DiagnoseWithin(ctx context.Context, long time.Duration, report func(name, level, text, fix string)) error {
	return s.diagnose(ctx, long, report)
}
