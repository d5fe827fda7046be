// Package outbox is a transactional outbox for Go.
//
// An application writes its business rows and its events in one database
// transaction: committed, the events will be delivered; rolled back, they never
// existed; and until the commit nobody can see them. A relay then hands every
// committed event to a [Dispatcher] (Kafka, NATS JetStream, RabbitMQ, Redis
// Streams, a signed webhook, an in-process bus), at least once, in order per key,
// through crashes, outages and poison messages.
//
// This package is the domain: messages, verdicts, retry policies, topic rules and
// the seams between the engine and its stores. It knows no driver and no broker.
// Stores live in store/…, sinks in sink/…, the engine in relay.
//
// # What you may rely on
//
// An event enqueued with the caller's transaction exists if and only if that
// transaction committed. Every committed event is dispatched until its destination
// acknowledges it, or it becomes visibly dead with a reason. Messages that share a
// Key are first delivered in order.
//
// # What you may not rely on
//
// Delivery is at least once: a crash between delivery and settlement delivers
// twice, so consumers must deduplicate on EventID. There is no order between keys,
// and none for messages without a key.
package outbox
