package metrics

import "github.com/go-outbox/outbox/relay"

// Chain returns hooks that call each of the given ones in order. A field that none of
// them has stays nil, so that the relay can leave it out.
func Chain(hooks ...relay.Hooks) relay.Hooks {
	var all relay.Hooks
	for _, h := range hooks {
		all = chain(all, h)
	}
	return all
}

func chain(a, b relay.Hooks) relay.Hooks {
	return relay.Hooks{
		LeaseAcquired: both2(a.LeaseAcquired, b.LeaseAcquired),
		LeaseLost:     both3(a.LeaseLost, b.LeaseLost),
		Read:          both3(a.Read, b.Read),
		Stepped:       both4(a.Stepped, b.Stepped),
		Dispatched:    both3(a.Dispatched, b.Dispatched),
		Settled:       both2(a.Settled, b.Settled),
		Isolated:      both3(a.Isolated, b.Isolated),
		Circuit:       both3(a.Circuit, b.Circuit),
		DatabaseError: both3(a.DatabaseError, b.DatabaseError),
		Purged:        both2(a.Purged, b.Purged),
	}
}

func both2[A, B any](f, g func(A, B)) func(A, B) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(a A, b B) { f(a, b); g(a, b) }
}

func both3[A, B, C any](f, g func(A, B, C)) func(A, B, C) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(a A, b B, c C) { f(a, b, c); g(a, b, c) }
}

func both4[A, B, C, D any](f, g func(A, B, C, D)) func(A, B, C, D) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(a A, b B, c C, d D) { f(a, b, c, d); g(a, b, c, d) }
}
