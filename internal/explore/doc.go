// Package explore runs the real relay on the in-memory store through every schedule
// within a bound, in virtual time, and looks for one that breaks a promise.
//
// Two relays work a table with two keys. Each of their store calls and dispatches stops
// at a gate; the explorer lets one go at a time. Left alone it lets the oldest go. Every
// departure from that counts one: another call goes first, a call fails, its answer is
// lost or late, a process dies, is stopped and wakes up as a stale owner, an operator
// replays, the cleaner cleans, a transaction commits late or never. All schedules with at
// most so many departures are run; a state that was reached before with as many
// departures left is not explored twice.
//
// What is exhausted is that bound, nothing more: other sizes, databases and real
// scheduling are for internal/torture. That the in-memory store behaves like the SQL
// ones is shown by the property tests here.
package explore
