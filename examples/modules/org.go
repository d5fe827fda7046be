package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/pgstore"
)

const topicDepartmentOpened = "org.department.opened.v1"

// Org owns departments and org_outbox.
type Org struct{ box *pgstore.Store }

type departmentOpened struct {
	Department string `json:"department"`
}

// OpenDepartment writes the department and its event in the caller's transaction.
func (o *Org) OpenDepartment(ctx context.Context, name string) error {
	tx, err := txFrom(ctx)
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `INSERT INTO department (name) VALUES ($1) ON CONFLICT DO NOTHING`, name)
	if err != nil {
		return fmt.Errorf("open department: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return nil // it exists: nothing happened, so there is no event
	}
	payload, err := json.Marshal(departmentOpened{Department: name})
	if err != nil {
		return err
	}
	_, err = o.box.Enqueue(ctx, tx, outbox.Message{Topic: topicDepartmentOpened, Key: name, Payload: payload})
	return err
}

// onEmployeeHired counts heads. Delivery is at least once, so the event id is
// recorded in the same transaction as the effect.
func (o *Org) onEmployeeHired(ctx context.Context, db *Database, msg outbox.DispatchedMessage) error {
	var e employeeHired
	if err := json.Unmarshal(msg.Payload, &e); err != nil {
		return outbox.Permanent(err)
	}
	return db.InTx(ctx, func(ctx context.Context) error {
		fresh, err := firstTime(ctx, msg.Meta.EventID)
		if err != nil || !fresh {
			return err
		}
		tx, err := txFrom(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE department SET headcount = headcount + 1 WHERE name = $1`, e.Department)
		return err
	})
}
