package torture

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// A body is what an event says. It names itself, so that a delivery can be judged
// without asking the database.
type body struct {
	Transaction string
	Event       uuid.UUID
	Key         string
	N           int
	// Poison ends the process that dispatches it.
	Poison bool   `json:",omitempty"`
	Pad    string `json:",omitempty"`
}

// sealed is a payload: a body and the sum of its bytes.
type sealed struct {
	Body json.RawMessage `json:"body"`
	Sum  string          `json:"sum"`
}

func (b *body) seal() (json.RawMessage, error) {
	raw, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	return json.Marshal(sealed{Body: raw, Sum: sum(raw)})
}

// unseal reads a payload and reports any change of the body's bytes.
func unseal(payload json.RawMessage) (body, error) {
	var s sealed
	var b body
	if err := json.Unmarshal(payload, &s); err != nil {
		return b, fmt.Errorf("read payload: %w", err)
	}
	if sum(s.Body) != s.Sum {
		return b, errors.New("the payload does not have the sum it names")
	}
	err := json.Unmarshal(s.Body, &b)
	return b, err
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
