package webhook

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
)

// Whatever a header holds, parsing it ends in an error of this package, or in
// signatures that are in the header as Sign would have written them.
func FuzzParseSignatures(f *testing.F) {
	good := "v1," + base64.StdEncoding.EncodeToString(make([]byte, 32))
	for _, seed := range []string{"", " ", ",", "v1", "v1,", good, good + " " + good, "v2,x " + good, good + "\n", "v1,,", "v1a," + good} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		found, err := parseSignatures(header)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnknownVersion) {
				t.Errorf("strange error %v", err)
			}
			return
		}
		for _, mac := range found {
			if !strings.Contains(" "+header+" ", " v1,"+base64.StdEncoding.EncodeToString(mac[:])+" ") {
				t.Errorf("found %x, which is not in %q", mac, header)
			}
		}
	})
}

func FuzzParseTimestamp(f *testing.F) {
	for _, seed := range []string{"", "0", "-0", "00", "1800000000", "+1", " 1", "1e3", "9223372036854775808"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := parseTimestamp(s)
		if err == nil && strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
			t.Errorf("%q is %s", s, at)
		}
	})
}
