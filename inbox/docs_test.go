package inbox_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// What the documentation shows is compiled and run: it is part of the examples.
func TestTheDocumentedCodeIsTheExamples(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`(?m)^[\t ]+`).ReplaceAllString(string(text), "")
	}
	examples := read("example_test.go") + read("../examples/billing/invoices.go") + read("../examples/billing/relay.go")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read("../docs/consumers.md"), -1)
	if len(blocks) == 0 {
		t.Fatal("the page shows no code")
	}
	for _, b := range blocks {
		if !strings.Contains(examples, b[1]) {
			t.Errorf("not in the examples:\n%s", b[1])
		}
	}
}
