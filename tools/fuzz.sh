#!/usr/bin/env bash
# Fuzzes every target for about ten seconds, two at a time, on top of the corpus that go
# test runs. tools/fuzz.txt says how many inputs that is for each target: a number of
# inputs ends when it is reached, while a time is sometimes reported as a failure when it
# is over.
#
#   FUZZ_SCALE  how many times as many (default: 1)
set -euo pipefail
cd "$(dirname "$0")/.."

# listed: the targets of tools/fuzz.txt, as PACKAGE NAME COUNT.
listed() { grep -v '^#' tools/fuzz.txt; }

# present: the targets in the code, as PACKAGE NAME.
present() {
	grep -rE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*\(' . | grep -v '^./bench/' |
		sed -E 's|^\./(.*/)?[^/]*_test\.go:func (Fuzz[A-Za-z0-9_]*).*|./\1 \2|; s|/ | |' | sort
}

# one PACKAGE NAME COUNT: fuzzes a target and shows its output when it is over.
one() {
	local out
	if out=$(go test -run '^$' -fuzz "^$2\$" -fuzztime "$(($3 * ${FUZZ_SCALE:-1}))x" -fuzzminimizetime 100x -parallel 1 "$1" 2>&1); then
		echo "$(tail -1 <<<"$out")  $2, $3 inputs"
		return
	fi
	echo "$out"
	return 1
}
export -f one

if ! diff <(listed | cut -d' ' -f1,2 | sort) <(present); then
	echo "tools/fuzz.txt (<) and the targets in the code (>) differ: add or remove lines there"
	exit 1
fi
listed | xargs -P 2 -L 1 bash -c 'one "$@"' one
