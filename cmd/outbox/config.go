package main

import (
	"github.com/spf13/cobra"
)

func (a *app) configCommand() *cobra.Command {
	print := &cobra.Command{
		Use:   "print",
		Short: "Print the settings in force and where each came from",
		Long: "Print the settings in force and where each came from: a flag, the environment, the file or the default.\n" +
			"Credentials are masked. The text output is a configuration file.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.configPrint(cmd) },
	}
	addSettings(print.Flags(), isSpecial)
	return group("config", "Look at the configuration", print)
}

func (a *app) configPrint(cmd *cobra.Command) error {
	cfg, err := a.load(cmd)
	if err != nil {
		return err
	}
	for _, note := range cfg.Notes {
		a.warnf("%s", note)
	}
	if !a.json {
		return cfg.WriteYAML(a.out)
	}
	for _, e := range cfg.Entries() {
		line := struct {
			Key    string `json:"key"`
			Value  string `json:"value"`
			Source string `json:"source"`
		}{e.Key, e.Value, e.Origin.String()}
		if err := a.printJSON(line); err != nil {
			return err
		}
	}
	return nil
}
