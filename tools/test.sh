#!/usr/bin/env bash
# What `make test` does: format, vet, static analysis, then every test with the
# race detector and real servers. Logs of a failing run stay in .testlog.
#
#   TEST_FLAGS  flags of go test (default: -race -timeout 20m -p 2)
#   TEST_SCOPE  packages (default: ./...)
#   FUZZ_SCALE  how many times ten seconds each fuzz target runs (default: 1)
#   READINESS   file to write the record of the run to (make readiness)
set -euo pipefail
cd "$(dirname "$0")/.."

read -ra flags <<<"${TEST_FLAGS:--race -timeout 20m -p 2}"
read -ra scope <<<"${TEST_SCOPE:-./...}"
logs=$PWD/.testlog
rm -rf "$logs"
mkdir -p "$logs"

# step NAME COMMAND...: runs a command, shows and keeps its output.
step() {
	local name=$1
	shift
	echo "== $name"
	local began=$SECONDS
	if "$@" 2>&1 | tee "$logs/$name.log"; then
		echo "| $name | $((SECONDS - began)) s | pass |" >>"$logs/steps"
		return
	fi
	echo
	echo "FAILED: $name. The log is .testlog/$name.log; to run it again:"
	again "$logs/$name.log" "$@"
	exit 1
}

# again LOG COMMAND...: the shortest command that repeats the failure: one line
# for each failed package of go test, the whole command for everything else.
again() {
	local log=$1
	shift
	local failed
	failed=$(awk -v flags="${flags[*]}" '
		/^--- FAIL: / { tests = tests (tests ? "|" : "") $3 }
		$1 == "FAIL" && NF > 1 {
			run = tests ? " -run \047^(" tests ")$\047" : ""
			printf "  go test -count=1 %s%s %s\n", flags, run, $2
			tests = ""
		}' "$log")
	echo "${failed:-  $*}"
}

format() {
	local unformatted
	unformatted=$(gofmt -l .)
	[ -z "$unformatted" ] || { echo "run gofmt -w on:"; echo "$unformatted"; return 1; }
}

with_servers() {
	OUTBOX_TEST_LOGS=$logs "$logs/testenv" run -- "$@"
}

# nested MODULE COMMAND...: runs a command in a module of its own, so that what it
# requires never reaches a user of ours.
nested() {
	(cd "$1" && go vet ./... && shift && with_servers "$@")
}

slowest() {
	echo "slowest packages:"
	awk '$1 == "ok" && $3 ~ /^[0-9.]+s$/ { printf "%9s  %s\n", $3, $2 }' "$logs/test.log" | sort -rn | head -10
}

# record: the run as a page, followed by the runs that make test does not contain.
record() {
	cat <<-PAGE
		# Readiness

		The record of one \`make test\`, written by \`make readiness\`. Durations are of one machine and say nothing about speed.

		- **Date**: $(date -u +%F), commit \`$(git rev-parse --short HEAD)\`
		- **Machine**: $(uname -s), $(nproc) cores, $(go version | cut -d' ' -f3)
		- **Backends**: $(sed -n 's/^testenv: with //p' "$logs/test.log" | head -1)

		| step | took | result |
		|---|---|---|
		$(cat "$logs/steps")

		| package | took | result |
		|---|---|---|
		$(awk '$1 == "ok" { sub("github.com/go-outbox/", "", $2); printf "| `%s` | %s | pass |\n", $2, $3 == "(cached)" ? "cached" : $3 }' "$logs/test.log")

	PAGE
	cat docs/readiness.extra.md
}

step format format
step vet go vet "${scope[@]}"
step staticcheck go tool -modfile=tools/go.mod staticcheck "${scope[@]}"
go build -o "$logs/testenv" ./internal/testenv/cmd/testenv
step test with_servers go test "${flags[@]}" "${scope[@]}"
if [ "${scope[*]}" = ./... ]; then
	for module in contrib/watermillsink examples/transactions; do
		step "${module//\//-}" nested "$module" go test "${flags[@]}" ./...
	done
	step bench bash -c 'cd bench && go vet ./...'
	step explore with_servers go test -count=1 ./internal/explore # a wider bound than under the race detector
	step fuzz tools/fuzz.sh # the corpus is run by go test; this goes beyond it
fi

echo
slowest
grep '^testenv: WITHOUT' "$logs/test.log" || true
if [ -n "${READINESS:-}" ]; then
	record >"$READINESS"
fi
echo "PASS: $(grep -c '^ok' "$logs/test.log") packages in ${SECONDS}s"
rm -rf "$logs"
