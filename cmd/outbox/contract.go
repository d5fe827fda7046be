package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/go-outbox/outbox"
	"github.com/go-outbox/outbox/contract"
)

func (a *app) contractCommand() *cobra.Command {
	return group("contract", "Check and document event contracts", a.contractCheckCommand(), a.contractDocsCommand())
}

func (a *app) contractCheckCommand() *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "check OLD NEW",
		Short: "Find changes of JSON Schemas that need a new topic version",
		Long: "Check compares two schemas, or two directories with a schema per topic version.\n" +
			"It exits with 1 when a change breaks consumers or refuses events that were valid.",
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return a.contractCheck(args[0], args[1], strict) },
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "fail for cautions too, such as a value added to an enumeration")
	return cmd
}

func (a *app) contractCheck(old, new string, strict bool) error {
	changes, err := compareContracts(old, new)
	if err != nil {
		return err
	}
	limit := contract.Breaking
	if strict {
		limit = contract.Caution
	}
	bad := 0
	for _, c := range changes {
		if c.Level >= limit {
			bad++
		}
		if a.json {
			err = a.printJSON(c)
		} else {
			_, err = fmt.Fprintln(a.out, printable(c.String()))
		}
		if err != nil {
			return err
		}
	}
	switch {
	case bad > 0 && strict:
		return fmt.Errorf("%d of %d changes are not compatible: keep the old schema and add the next version", bad, len(changes))
	case bad > 0:
		return fmt.Errorf("%d of %d changes are breaking: keep the old schema and add the next version", bad, len(changes))
	case len(changes) == 0 && !a.json:
		_, err = fmt.Fprintln(a.out, "no changes")
	}
	return err
}

func compareContracts(old, new string) ([]contract.Change, error) {
	wasDir, err := isDirectory(old)
	if err != nil {
		return nil, err
	}
	isDir, err := isDirectory(new)
	switch {
	case err != nil:
		return nil, err
	case wasDir != isDir:
		return nil, usagef("compare two files or two directories, not one with the other")
	case isDir:
		was, err := openContracts(old)
		if err != nil {
			return nil, err
		}
		is, err := openContracts(new)
		if err != nil {
			return nil, err
		}
		return contract.CompareAll(was, is), nil
	}
	was, err := contract.OpenFile(old)
	if err != nil {
		return nil, err
	}
	is, err := contract.OpenFile(new)
	if err != nil {
		return nil, err
	}
	return contract.Compare(was, is), nil
}

func isDirectory(name string) (bool, error) {
	info, err := os.Stat(name)
	if err != nil {
		return false, err
	}
	return info.IsDir(), nil
}

// openContracts reads a directory whatever its topics look like: their policy is the
// producer's.
func openContracts(dir string) (*contract.Registry, error) {
	return contract.Open(dir, contract.Config{Topics: outbox.AnyTopic})
}

func (a *app) contractDocsCommand() *cobra.Command {
	var format, output string
	cmd := &cobra.Command{
		Use:   "docs DIR",
		Short: "Print a catalogue of the events that a directory of JSON Schemas describes",
		Args:  cobra.ExactArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return a.contractDocs(args[0], format, output) },
	}
	cmd.Flags().StringVar(&format, "format", "markdown", "markdown or html")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this file instead of the terminal")
	return cmd
}

func (a *app) contractDocs(dir, format, output string) error {
	if format != "markdown" && format != "html" {
		return usagef("--format: %q is not one of markdown, html", format)
	}
	contracts, err := openContracts(dir)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if format == "html" {
		err = contracts.WriteHTML(&page)
	} else {
		err = contracts.WriteMarkdown(&page)
	}
	if err != nil {
		return fmt.Errorf("render the catalogue: %w", err)
	}
	if output != "" {
		return os.WriteFile(output, page.Bytes(), 0o644)
	}
	_, err = a.out.Write(page.Bytes())
	return err
}
