package nodecmd

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/usage"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// ExecCommand returns the command `exec`.
func (a *Commands) ExecCommand() *cobra.Command {
	var (
		rank int
		dir  string
		env  []string
		tty  bool
	)
	c := &cobra.Command{
		Use: "exec RUN COMMAND...", Short: "Run a command inside a running job's container",
		Example: "  bee exec lysozyme tail -f md.log\n  bee exec --node 1 lysozyme top -b -n 1\n  bee exec -it lysozyme bash",
		Args:    cobra.MinimumNArgs(2), ValidArgsFunction: a.RunsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			args, err := afterRun(c, args)
			if err != nil {
				return err
			}
			return a.Exec(c.Context(), args[0], rank, nodecall.ExecRequest{Args: args[1:], Dir: dir, Env: env, TTY: tty})
		},
	}
	c.Flags().SetInterspersed(false) // the command has flags of its own
	c.Flags().BoolP("interactive", "i", false, "no effect: standard input always reaches the command")
	c.Flags().BoolVarP(&tty, "tty", "t", false, "give the command a terminal, as for a shell or an editor")
	c.Flags().IntVar(&rank, "node", 0, "`rank` of the node in whose container to run it")
	c.Flags().StringVarP(&dir, "workdir", "w", "", "`directory` inside (default the job's working directory)")
	c.Flags().StringArrayVarP(&env, "env", "e", nil, "set `KEY=VALUE` for the command")
	return c
}

// afterRun reads flags that follow the run, up to the command.
func afterRun(c *cobra.Command, args []string) ([]string, error) {
	if !strings.HasPrefix(args[1], "-") {
		return args, nil
	}
	if err := c.ParseFlags(args[1:]); err != nil {
		return nil, usage.WrongFlags(c, err)
	}
	command := c.Flags().Args()
	if len(command) == 0 {
		return nil, usage.WrongArguments(c, args[:1])
	}
	return append(args[:1:1], command...), nil
}

// Exec runs a command in the container of a node.
func (a *Commands) Exec(ctx context.Context, word string, rank int, r nodecall.ExecRequest) error {
	c, done, err := a.DialNode(ctx, word, rank)
	if err != nil {
		return err
	}
	defer done()
	r.Rank = rank
	if r.TTY {
		restore, err := ownTerminal(&r)
		if err != nil {
			return err
		}
		defer restore()
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	exit, err := c.Exec(ctx, r, os.Stdin, a.Stdout, a.Stderr, signals)
	if err != nil {
		if exit.Code != 0 {
			a.PrintError(err)
			return console.Exit(exit.Code)
		}
		return err
	}
	if exit.Code != 0 {
		return console.Exit(exit.Code)
	}
	return nil
}
