package migrate

import (
	"fmt"
	"io"
	"strings"
)

// A Format is a way to hand migrations to people who apply them with another
// tool.
type Format string

// The formats Print knows.
const (
	// SQL is the plain statements. Whether they run in a transaction is up
	// to the tool that runs them.
	SQL Format = "sql"

	// Goose is one goose migration with both directions.
	Goose Format = "goose"

	// Atlas is the latest schema in HCL, if the store provides it; Atlas
	// finds the steps itself, so the versions asked for do not matter.
	Atlas Format = "atlas"
)

// Print writes the statements that lead from one version to another, up or
// down, including those that record the versions.
func Print(w io.Writer, set Set, format Format, from, to int) error {
	for _, v := range []int{from, to} {
		if v < 0 || v > set.Latest() {
			return fmt.Errorf("print migrations of %s: no version %d, the latest is %d", set.Table, v, set.Latest())
		}
	}
	var b strings.Builder
	switch {
	case format == SQL:
		writeSteps(&b, set.path(from, to), "%s;\n")
	case format == Goose:
		// goose splits on semicolons unless a statement is fenced.
		const fenced = "-- +goose StatementBegin\n%s;\n-- +goose StatementEnd\n"
		b.WriteString("-- +goose Up\n")
		writeSteps(&b, set.path(from, to), fenced)
		b.WriteString("\n-- +goose Down\n")
		writeSteps(&b, set.path(to, from), fenced)
	case format == Atlas && set.Atlas != nil:
		return set.Atlas(w)
	default:
		return fmt.Errorf("print migrations of %s: format %q is not available", set.Table, format)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeSteps(b *strings.Builder, steps []step, layout string) {
	for _, step := range steps {
		fmt.Fprintf(b, "\n-- %s\n", step.label)
		for _, statement := range step.statements {
			fmt.Fprintf(b, layout, statement)
		}
	}
}
