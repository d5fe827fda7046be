package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/store/pgstore"
)

const topicEmployeeHired = "hrm.employee.hired.v1"

// HRM owns employees and hrm_outbox.
type HRM struct{ box *pgstore.Store }

type employeeHired struct {
	Employee   string `json:"employee"`
	Department string `json:"department"`
}

// Hire writes the employee and the event in the caller's transaction. Events of one
// department are delivered in order.
func (h *HRM) Hire(ctx context.Context, employee, department string) error {
	tx, err := txFrom(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO employee (name, department) VALUES ($1, $2)`, employee, department); err != nil {
		return fmt.Errorf("hire: %w", err)
	}
	payload, err := json.Marshal(employeeHired{Employee: employee, Department: department})
	if err != nil {
		return err
	}
	_, err = h.box.Enqueue(ctx, tx, outbox.Message{Topic: topicEmployeeHired, Key: department, Payload: payload})
	return err
}

func (h *HRM) onDepartmentOpened(ctx context.Context, db *Database, msg outbox.DispatchedMessage) error {
	var e departmentOpened
	if err := json.Unmarshal(msg.Payload, &e); err != nil {
		return outbox.Permanent(err)
	}
	return db.InTx(ctx, func(ctx context.Context) error {
		tx, err := txFrom(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO onboarding (department) VALUES ($1) ON CONFLICT DO NOTHING`, e.Department)
		return err // idempotent by itself: no event id needed
	})
}

// firstTime records an event id in the transaction of ctx and reports whether it was
// new.
func firstTime(ctx context.Context, id uuid.UUID) (bool, error) {
	tx, err := txFrom(ctx)
	if err != nil {
		return false, err
	}
	tag, err := tx.Exec(ctx, `INSERT INTO seen_event (event_id) VALUES ($1) ON CONFLICT DO NOTHING`, id)
	if err != nil {
		return false, fmt.Errorf("record event: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}
