package contract

import "testing"

// When a change is not breaking, whatever was valid before is valid after. A field that
// is added is the exception that the rule makes: an event may have had one of that name
// by chance.
func TestWhatIsNotBreakingRefusesNoEvent(t *testing.T) {
	compatible := 0
	for _, old := range quickSchemas {
		for _, changed := range quickSchemas {
			a, b := mustParse(t, old), mustParse(t, changed)
			changes := Compare(a, b)
			if Worst(changes) == Breaking || adds(changes) {
				continue
			}
			compatible++
			for _, payload := range quickPayloads {
				if a.Validate([]byte(payload)) == nil && b.Validate([]byte(payload)) != nil {
					t.Errorf("%s to %s is %s, but %s is refused: %v", old, changed, Worst(changes), payload, changes)
				}
			}
		}
	}
	if compatible <= len(quickSchemas) {
		t.Errorf("only %d pairs are compatible", compatible)
	}
}

func adds(changes []Change) bool {
	for _, c := range changes {
		if c.Kind == FieldAdded {
			return true
		}
	}
	return false
}

func mustParse(t *testing.T, text string) *Schema {
	t.Helper()
	s, err := Parse("shop.order.placed.v1", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
