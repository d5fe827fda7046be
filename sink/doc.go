// Package sink is what stands between a relay and several sinks: a [Router] that
// sends each topic to its destinations, and the [Envelope] it may put around messages
// on the way.
//
// A message goes to the first route whose patterns match, and on to the next ones for
// as long as they say Continue. A topic that none matches is outbox.ErrNoRoute, which
// makes the message dead and visible, never dropped in silence. Routes fail apart: the
// relay keeps a circuit, a queue and a rate for each, and in a batch one route's outage
// is not another's. A message that goes to several is published when all have it.
//
// The router itself retries nothing and limits no rate: a [Route] says how, and the
// relay does it. Keys order the messages of a route; where a route continues, they
// order across all routes, so that a key waits for its slowest one.
package sink
