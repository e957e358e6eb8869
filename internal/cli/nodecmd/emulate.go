package nodecmd

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/usage"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/provider/local"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// EmulateCommand returns the command `emulate`.
func (a *Commands) EmulateCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "emulate", Short: "Cause failures on the emulated hosts of a run", Args: cobra.NoArgs,
		Long: `Cause failures on the emulated hosts of a run, which a local site with hosts: N
makes: cut links, kill hosts, run commands. HOST is a host's name or number.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.newEmulateHostsCommand(), a.newEmulateLinkCommand(), a.newEmulateKillCommand(), a.newEmulateExecCommand(), a.newEmulateDialCommand())
	return c
}

// emulated finds the emulated hosts of a run.
func (a *Commands) emulated(ctx context.Context, word string) (*emulate.Client, error) {
	s, run, err := a.OpenRun(ctx, word)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return local.Emulated(ctx, a.StateDir, run.ID)
}

// emulatedHost finds them, and the number of one.
func (a *Commands) emulatedHost(ctx context.Context, word, host string) (*emulate.Client, int, error) {
	c, err := a.emulated(ctx, word)
	if err != nil {
		return nil, 0, err
	}
	i := slices.IndexFunc(c.Hosts(), func(h emulate.Host) bool { return h.Hostname == host })
	if n, err := strconv.Atoi(host); i < 0 && err == nil {
		i = n
	}
	if i < 0 || i >= len(c.Hosts()) {
		return nil, 0, &core.Error{
			Kind: core.NotFound, Op: "find host", Object: host, Err: errors.New("the run has none of that name or number"),
			Remedy: "`bee emulate hosts " + word + "` lists them.",
		}
	}
	return c, i, nil
}

// emulatedView is an emulated host, as --json prints it.
type emulatedView struct {
	Number  int    `json:"number"`
	Name    string `json:"name"`
	Address string `json:"address"`
}

func (a *Commands) newEmulateHostsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "hosts RUN", Short: "List the emulated hosts of a run", Args: cobra.ExactArgs(1), ValidArgsFunction: a.RunsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			hosts, err := a.emulated(c.Context(), args[0])
			if err != nil {
				return err
			}
			views := []emulatedView{}
			w := a.On(a.Stdout).List()
			for i, h := range hosts.Hosts() {
				views = append(views, emulatedView{i, h.Hostname, h.Addr})
				w.Row(i, h.Hostname, h.Addr)
			}
			if asJSON {
				return a.WriteJSON(views)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

func (a *Commands) newEmulateLinkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "link RUN HOST down|up", Short: "Cut a host off, or restore its link: packets vanish, and the host sees its link as up", Args: cobra.ExactArgs(3),
		ValidArgsFunction: a.RunsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			if args[2] != "up" && args[2] != "down" {
				return usage.WrongArguments(c, args)
			}
			hosts, i, err := a.emulatedHost(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return hosts.Link(c.Context(), i, args[2] == "up")
		},
	}
}

func (a *Commands) newEmulateKillCommand() *cobra.Command {
	return &cobra.Command{
		Use: "kill RUN HOST", Short: "Kill everything on a host, as a power cut does", Args: cobra.ExactArgs(2), ValidArgsFunction: a.RunsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			hosts, i, err := a.emulatedHost(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return hosts.Kill(c.Context(), i)
		},
	}
}

func (a *Commands) newEmulateExecCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "exec RUN HOST COMMAND...", Short: "Run a command on a host, outside of containers", Args: cobra.MinimumNArgs(3), ValidArgsFunction: a.RunsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, done := console.UntilInterrupt(c.Context())
			defer done()
			hosts, i, err := a.emulatedHost(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			exit, err := hosts.Run(ctx, emulate.Command{Host: i, Argv: args[2:], Env: os.Environ(), Dir: workspace.WorkingDir()}, os.Stdin, os.Stdout, os.Stderr)
			if err == nil && exit.Code != 0 {
				err = console.Exit(exit.Code)
			}
			return err
		},
	}
	c.Flags().SetInterspersed(false) // what follows is the command's
	return c
}

func (a *Commands) newEmulateDialCommand() *cobra.Command {
	return &cobra.Command{
		Use: "dial RUN ADDRESS:PORT", Short: "Join standard input and output to a TCP port on the hosts' network", Args: cobra.ExactArgs(2),
		Example:           "  ssh -o ProxyCommand='bee emulate dial study %h:%p' 10.1.0.2",
		ValidArgsFunction: a.RunsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, done := console.UntilInterrupt(c.Context())
			defer done()
			hosts, err := a.emulated(ctx, args[0])
			if err != nil {
				return err
			}
			return hosts.Relay(ctx, args[1], os.Stdin, a.Stdout)
		},
	}
}
