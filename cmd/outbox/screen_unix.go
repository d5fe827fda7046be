//go:build unix

package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// screen is the size of a terminal, or the usual one.
func screen(w io.Writer) (width, height int) {
	if f, ok := w.(*os.File); ok {
		size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
		if err == nil && size.Col > 0 && size.Row > 0 {
			return int(size.Col), int(size.Row)
		}
	}
	return 80, 24
}
