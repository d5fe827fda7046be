package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// chromium is Debian's own browser; the fonts are what the console asks for first, so
// that screenshots look the same everywhere.
var chromium = Backend{
	Name:     "chromium",
	packages: []string{"chromium", "fonts-inter", "fonts-jetbrains-mono", "fonts-wqy-microhei"},
	find: func() error {
		_, err := ChromiumPath()
		return err
	},
}

// Chromium returns the path of the browser. Every test starts its own.
func Chromium(t testing.TB) string {
	t.Helper()
	chromium.need(t)
	path, err := ChromiumPath()
	if err != nil {
		chromium.missing(t, err)
	}
	return path
}

// ChromiumPath looks for the browser. It prefers the program itself over Debian's
// wrapper script, which reads settings of the desktop that tests should not have.
func ChromiumPath() (string, error) {
	const program = "/usr/lib/chromium/chromium"
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	return exec.LookPath("chromium")
}

// axeVersion of axe-core, which tests run in the browser and nothing ships.
const axeVersion = "4.14"

// Axe returns the source of axe-core, the accessibility checker. It comes from npm once
// and is kept in the user's cache directory.
func Axe(t testing.TB) string {
	t.Helper()
	source, err := axe()
	if err != nil {
		chromium.missing(t, fmt.Errorf("axe-core: %w", err))
	}
	return source
}

func axe() (string, error) {
	dir, err := cached("axe-core-" + axeVersion)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")
	if source, err := os.ReadFile(file); err == nil {
		return string(source), nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	out, err := exec.Command(npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, "axe-core@"+axeVersion).CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	source, err := os.ReadFile(file)
	return string(source), err
}
