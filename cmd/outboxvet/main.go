// Command outboxvet reports uses of the outbox that compile and lose events.
//
//	go install github.com/go-outbox/outbox/cmd/outboxvet@latest
//	outboxvet ./...
//	go vet -vettool=$(which outboxvet) ./...
//
// What it looks for is in the comment of package outboxvet.
package main

import (
	"golang.org/x/tools/go/analysis/singlechecker"

	"github.com/go-outbox/outbox/outboxvet"
)

func main() { singlechecker.Main(outboxvet.Analyzer) }
