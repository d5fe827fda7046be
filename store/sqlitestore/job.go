package sqlitestore

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
)

var errTodo = errors.New("not there yet")

func (s *Store) Ahead(context.Context, string, int64) (*outbox.Record, error) { return nil, errTodo }
func (s *Store) Keys(context.Context, int64, int) ([]outbox.HeldKey, error)   { return nil, errTodo }
func (s *Store) Groups(context.Context, outbox.Filter) (outbox.Groups, error) {
	return outbox.Groups{}, errTodo
}
func (s *Store) Audit(context.Context, outbox.AuditFilter) ([]outbox.AuditEntry, error) {
	return nil, errTodo
}
func (s *Store) Jobs(context.Context, int) ([]outbox.Job, error)    { return nil, errTodo }
func (s *Store) Job(context.Context, uuid.UUID) (outbox.Job, error) { return outbox.Job{}, errTodo }
func (s *Store) PreviewJob(context.Context, outbox.JobRequest) (outbox.JobPreview, error) {
	return outbox.JobPreview{}, errTodo
}
func (s *Store) StartJob(context.Context, outbox.JobRequest) (outbox.Job, error) {
	return outbox.Job{}, errTodo
}
func (s *Store) StepJob(context.Context, uuid.UUID, string) (outbox.Job, error) {
	return outbox.Job{}, errTodo
}
func (s *Store) SetJob(context.Context, uuid.UUID, outbox.JobState, string, string) (outbox.Job, error) {
	return outbox.Job{}, errTodo
}
