package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
)

// policyFile keeps Debian packages from starting the services they install: we
// start our own servers, on our own ports.
const policyFile = "/usr/sbin/policy-rc.d"

// Install provides the backends that are not on this machine: their packages with
// apt-get, as root, and what no package holds as whoever we are. It writes what it
// does to w. It does nothing when all are there, so it may be called before every
// run.
func Install(w io.Writer, backends []Backend) error {
	var packages []string
	var incomplete []Backend
	for _, b := range backends {
		// The packages may be there already, and only the rest be missing.
		if b.find() == nil || b.fetch != nil && b.fetch(w) == nil && b.find() == nil {
			continue
		}
		packages = append(packages, b.packages...)
		incomplete = append(incomplete, b)
	}
	if len(packages) == 0 {
		return nil
	}
	if err := installPackages(w, packages); err != nil {
		return fmt.Errorf("install %v: %w", packages, err)
	}
	var errs []error
	for _, b := range incomplete {
		if b.fetch != nil {
			errs = append(errs, b.fetch(w))
		}
	}
	return errors.Join(errs...)
}

func installPackages(w io.Writer, packages []string) error {
	if os.Geteuid() != 0 {
		return errors.New("not root")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return err
	}
	restore, err := forbidServices(policyFile)
	if err != nil {
		return err
	}
	defer restore()

	fmt.Fprintf(w, "installing %v\n", packages)
	if err := aptGet("update", "-q"); err != nil {
		return err
	}
	return aptGet(append([]string{"install", "-q", "-y", "--no-install-recommends"}, packages...)...)
}

// forbidServices writes the policy for the time of an installation, unless the
// machine has one already.
func forbidServices(policy string) (restore func(), err error) {
	err = writeNew(policy, "#!/bin/sh\nexit 101\n")
	if errors.Is(err, fs.ErrExist) {
		return func() {}, nil
	}
	return func() { os.Remove(policy) }, err
}

func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func aptGet(args ...string) error {
	args = append([]string{"-o", "DPkg::Lock::Timeout=120", "-o", "Dpkg::Options::=--force-confold"}, args...)
	cmd := exec.Command("apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("apt-get %v: %w\n%s", args, err, bytes.TrimSpace(out))
	}
	return nil
}
