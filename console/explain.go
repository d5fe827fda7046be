package console

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/ops"
)

// An explanation says why a message is where it is.
type explanation struct {
	Cause  string
	Text   string
	Fix    string
	Behind uuid.UUID // the message that holds it
}

// why explains a message that the person may see. What holds it may be of another
// tenant: of that one only its place is told.
func (v *view) why(id uuid.UUID) (explanation, error) {
	facts, err := ops.Gather(v.ctx(), v.Source.Inspector, id)
	if err != nil {
		return explanation{}, err
	}
	foreign := facts.Ahead != nil && !v.Who.sees(facts.Ahead.TenantID)
	if foreign {
		facts.Ahead = &outbox.Record{
			EventID: facts.Ahead.EventID, Sequence: facts.Ahead.Sequence, Key: facts.Ahead.Key, AvailableAt: facts.Ahead.AvailableAt,
			CreatedAt: facts.Ahead.CreatedAt, DeadAt: facts.Ahead.DeadAt, Attempts: facts.Ahead.Attempts, InFlight: facts.Ahead.InFlight,
		}
	}
	facts.Routes = v.Source.Routes
	found := ops.Explain(facts)
	e := explanation{Cause: string(found.Cause), Text: sentence(found.Text), Fix: sentence(found.Fix)}
	if found.Behind != nil && !foreign {
		e.Behind = found.Behind.EventID
	}
	return e, nil
}

// sentence begins with a capital letter and ends with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if strings.ContainsAny(text[len(text)-1:], ".!?") {
		return text
	}
	return text + "."
}
