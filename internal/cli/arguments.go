package cli

import (
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/spf13/cobra"
)

// refuseWrongArguments has every command say in our words, kind and exit code
// what is wrong with its arguments: cobra's own errors have neither kind nor
// remedy.
func refuseWrongArguments(c *cobra.Command) {
	if accepts := c.Args; accepts != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if accepts(c, args) == nil {
				return nil
			}
			return wrongArguments(c, args)
		}
	}
	for _, sub := range c.Commands() {
		refuseWrongArguments(sub)
	}
}

// newHelpCommand is cobra's own, but for the words about commands that there are
// not, and its exit code.
func newHelpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND]", Short: "Help about any command", ValidArgsFunction: completeCommands,
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return wrongArguments(c, rest)
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		}}
}

func wrongArguments(c *cobra.Command, args []string) error {
	path := c.CommandPath()
	e := &core.Error{Kind: core.Invalid, Op: "read arguments of", Object: path, Remedy: "`" + path + " --help` tells more."}
	_, takes, _ := strings.Cut(c.Use, " ")
	switch {
	case c.HasSubCommands():
		e.Err = fmt.Errorf("it has no command %q", args[0])
		e.Remedy = "`" + path + " --help` lists its commands."
		c.SuggestionsMinimumDistance = 2
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			e.Remedy = fmt.Sprintf("Did you mean %s? %s", strings.Join(near, " or "), e.Remedy)
		}
	case takes == "":
		e.Err = fmt.Errorf("it takes none, and was given %s", strings.Join(args, " "))
	case len(args) == 0:
		e.Err = fmt.Errorf("it takes %s, and was given nothing", takes)
	default:
		e.Err = fmt.Errorf("it takes %s, and was given %s", takes, strings.Join(args, " "))
	}
	return e
}
