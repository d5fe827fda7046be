//go:build !unix

package main

import "io"

// screen is the usual size of a terminal.
func screen(io.Writer) (width, height int) { return 80, 24 }
