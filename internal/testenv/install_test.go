package testenv

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestInstallLeavesAMachineThatHasEverythingAlone(t *testing.T) {
	there := Backend{Name: "there", packages: []string{"no-such-package"}, find: func() error { return nil }}

	if err := Install(io.Discard, []Backend{there}); err != nil {
		t.Error(err)
	}
}

func TestInstallNeedsRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("this is root")
	}
	absent := Backend{Name: "absent", packages: []string{"p"}, find: func() error { return errors.New("absent") }}

	if err := Install(io.Discard, []Backend{absent}); err == nil {
		t.Error("an ordinary user installed a package")
	}
}

func TestServicePolicyLastsForTheInstallationOnly(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy-rc.d")

	restore, err := forbidServices(policy)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(policy); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("no executable policy: %v", err)
	}

	keep, err := forbidServices(policy) // the machine has one now
	if err != nil {
		t.Fatal(err)
	}
	keep()
	if _, err := os.Stat(policy); err != nil {
		t.Error("the machine's own policy was removed")
	}

	restore()
	if _, err := os.Stat(policy); !os.IsNotExist(err) {
		t.Error("our policy stayed")
	}
}
