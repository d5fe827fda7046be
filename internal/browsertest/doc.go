// Package browsertest drives the console in a real browser: Debian's Chromium, over its
// own debugging protocol. A page that logs an error, throws, or breaks the content
// security policy fails whoever looked at it.
//
// It also builds the scene that tests and screenshots share: a shop with a destination
// that is down, one that refuses messages, and everything that follows from it.
package browsertest
