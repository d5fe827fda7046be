package main

import (
	"context"
	"encoding/json"

	"gorm.io/gorm"

	"github.com/go-outbox/outbox"
)

// An Archive is an aggregate of the service.
type Archive struct {
	ID       int64
	TenantID string `gorm:"size:100;uniqueIndex:archive_code"`
	Code     string `gorm:"size:100;uniqueIndex:archive_code"`
	Title    string
}

// An ArchiveCreated is what others learn.
type ArchiveCreated struct {
	Code  string `json:"code"`
	Title string `json:"title"`
}

// newTopics says where the events of each aggregate type go.
func newTopics() (*outbox.TopicMapper, error) {
	return outbox.NewTopicMapper(map[string]string{
		"Archive": "archive-events",
		"Media":   "media-events",
	}, outbox.AnyTopic)
}

// CreateArchive writes the archive and its event in one transaction of GORM.
func (s *Service) CreateArchive(ctx context.Context, tenant, code, title string) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&Archive{TenantID: tenant, Code: code, Title: title}).Error; err != nil {
			return err
		}
		return s.record(ctx, tx, tenant, code, "ArchiveCreated", ArchiveCreated{Code: code, Title: title})
	})
	if err == nil {
		s.relay.Wake() // saves the relay in this process the wait for its next poll
	}
	return err
}

// record enqueues an event of an archive. Events of one archive are delivered in order.
func (s *Service) record(ctx context.Context, tx *gorm.DB, tenant, code, event string, data any) error {
	topic, err := s.topics.Topic("Archive")
	if err != nil {
		return err
	}
	payload, err := json.Marshal(data)
	if err != nil {
		return err
	}
	_, err = s.db.enqueue(ctx, tx, outbox.Message{
		Topic: topic, Payload: payload, Key: tenant + "/" + code, TenantID: tenant,
		AggregateType: "Archive", AggregateID: code, EventType: event, EventVersion: 1,
	})
	return err
}
