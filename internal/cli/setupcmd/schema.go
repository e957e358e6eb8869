package setupcmd

import (
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

// SchemaCommand returns the command `schema`.
func (a *Commands) SchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema beefile|sites|study", Short: "Write the JSON Schema of a file, for editors", Args: cobra.ExactArgs(1),
		ValidArgs: []string{"beefile", "sites", "study"},
		Long: `Write the JSON Schema of the Beefile, the sites file or a study file, made from the
types that the parser itself uses. An editor with YAML support checks and completes with it:

  bee schema beefile > ~/.config/bee/beefile.schema.json
  # yaml-language-server: $schema=~/.config/bee/beefile.schema.json`,
		RunE: func(_ *cobra.Command, args []string) error {
			schema := func() (map[string]any, error) { return spec.Schema(args[0]) }
			if args[0] == "study" {
				schema = study.Schema
			}
			s, err := schema()
			if err != nil {
				return err
			}
			return a.WriteJSON(s)
		},
	}
}
