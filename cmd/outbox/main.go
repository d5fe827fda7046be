// Command outbox relays committed messages from outbox tables to a destination, and
// lets people look at the tables and operate them.
//
// Every command exits 0 on success, 1 on failure, 2 on wrong usage or settings, 3
// when a schema is missing or of the wrong version, 4 when a check finds its limit
// exceeded, and 130 when it was interrupted.
// Results go to standard output, as text for people or with --json as one JSON
// object per line; everything else goes to standard error. Credentials are masked
// in both.
//
// Text output may change between versions; scripts should use --json.
package main

import (
	"context"
	"os"
)

func main() { os.Exit(mainExit()) }

func mainExit() int {
	ctx, stop := interruptible(context.Background())
	defer stop()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr, os.LookupEnv)
}
