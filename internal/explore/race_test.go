//go:build race

package explore

// The race detector makes a schedule several times as long and knows nothing about
// schedules: with it, one departure is enough.
const usual = 1
