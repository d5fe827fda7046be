// Package console is a web console for outbox tables: what is wrong, why a message has
// not been delivered, and what to do about it. It is an http.Handler that mounts under
// any path.
//
// It touches a store only through [outbox.Inspector] and [outbox.Operator], so every
// look has a bounded cost and every change is previewed, needs a reason and is audited
// in its own transaction. Pages are rendered on the server and readable without
// JavaScript; scripts and styles are its own and embedded. Text of messages is only ever
// shown as text, and payloads are hidden unless a role allows to see them.
//
// It lets nobody in unless its Config says who, and answers only to the host names it
// was given. It does not terminate TLS and opens no listener: the program that mounts it
// does. It does not relay, and it keeps nothing but sessions and the samples of its
// charts, which end with the process.
package console
