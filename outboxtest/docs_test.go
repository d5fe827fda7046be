package outboxtest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestTheExamplesPass(t *testing.T) {
	for name, example := range map[string]func(){
		"RequireEnqueued": ExampleRequireEnqueued, "Recorder": ExampleRecorder, "RunFaults": ExampleRunFaults,
	} {
		example()
		t.Run(name, test)
	}
}

// What the documentation shows is compiled and run: it is part of the examples.
func TestTheDocumentedCodeIsTheExamples(t *testing.T) {
	page, err := os.ReadFile("../docs/testing-your-code.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) == 0 {
		t.Fatal("the page shows no code")
	}
	for _, b := range blocks {
		if !strings.Contains(unindented(string(examples)), unindented(b[1])) {
			t.Errorf("not in example_test.go:\n%s", b[1])
		}
	}
}

func unindented(s string) string {
	return regexp.MustCompile(`(?m)^[\t ]+`).ReplaceAllString(s, "")
}
