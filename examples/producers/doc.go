// Package producers holds producers in other languages, one file each: producer.py and
// producer.mjs. They write events with a plain INSERT in their own transactions; the tests
// here run them and deliver what they wrote with the relay.
package producers
