//go:build !failpoint

package failpoint

import "errors"

// Enabled reports whether failpoints are compiled in.
const Enabled = false

// Hit does nothing in this build.
func Hit(string) {}

// Arm fails: there are no failpoints in this build.
func Arm(string) error { return errors.New("built without failpoints") }
