//go:build !race

package explore

// usual is how many departures there are when nobody says otherwise.
const usual = 2
