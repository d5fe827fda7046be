// Package sink is what stands between a relay and several sinks: a [Router] that
// sends each topic to its destination, and the [Envelope] it may put around messages
// on the way.
//
// A message goes to exactly one route, the first whose patterns match. A topic that
// none matches is outbox.ErrNoRoute, which makes the message dead and visible, never
// dropped in silence. Routes fail apart: the relay keeps a circuit for each, and in a
// batch one route's outage is not another's.
//
// The router retries nothing, which is the relay's part, limits no rate, and sends no
// message to more than one route. Both of the latter would be properties of a [Route].
package sink
