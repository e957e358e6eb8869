package nodecmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// VMShellCommand returns the command `vm shell`.
func (a *Commands) VMShellCommand() *cobra.Command {
	var (
		rank int
		tty  bool
	)
	c := &cobra.Command{
		Use: "shell RUN [NODE] [flags] [-- COMMAND...]", Short: "Run a command, or a shell, as root in a run's virtual machine",
		Long:    "Run a command, or a shell, as root in a run's virtual machine, outside the container. Docker is available there.",
		Example: "  bee vm shell lysozyme -- docker ps\n  bee vm shell lysozyme 1 -- dmesg",
		Args:    cobra.MinimumNArgs(1), ValidArgsFunction: a.RunsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			rank, command, err := GuestArgs(c, args, rank)
			if err != nil {
				return err
			}
			if len(command) == 0 {
				command, tty = []string{"/bin/bash"}, term.IsTerminal(int(os.Stdin.Fd()))
			}
			return a.Exec(c.Context(), args[0], rank, nodecall.ExecRequest{Args: command, Guest: true, TTY: tty})
		},
	}
	c.Flags().BoolVarP(&tty, "tty", "t", false, "give the command a terminal, which a shell gets anyway")
	c.Flags().IntVar(&rank, "node", 0, "`rank` of the node whose virtual machine it is")
	return c
}

// VMConsoleCommand returns the command `vm console`.
func (a *Commands) VMConsoleCommand() *cobra.Command {
	var rank int
	c := &cobra.Command{
		Use: "console RUN [NODE]", Short: "Show the kernel messages of a run's virtual machine", Args: cobra.RangeArgs(1, 2), ValidArgsFunction: a.RunsTo(state.ToReach),
		Long:    "Show the kernel messages of a run's virtual machine, also while it boots.",
		Example: "  bee vm console lysozyme\n  bee vm console lysozyme 1",
		RunE: func(c *cobra.Command, args []string) error {
			rank, _, err := GuestArgs(c, args, rank)
			if err != nil {
				return err
			}
			node, done, err := a.DialNode(c.Context(), args[0], rank)
			if err != nil {
				return err
			}
			defer done()
			text, err := node.Console(c.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(a.Stdout, output.Printable(strings.ReplaceAll(text, "\r\n", "\n")))
			return err
		},
	}
	c.Flags().IntVar(&rank, "node", 0, "`rank` of the node whose virtual machine it is")
	return c
}

// VMSnapshotCommand returns the command `vm snapshot`.
func (a *Commands) VMSnapshotCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "snapshot RUN DIRECTORY", Short: "Save all virtual machines of a run together, and continue it",
		Long: `Save all virtual machines of a run together. They are halted, their memory,
devices and disks are written to a directory, and they continue. The run's Beefile
needs vm: and checkpoint: {mode: vm}. A directory keeps the last two snapshots.
They contain all memory of the machines, secrets too.`,
		Example: "  bee vm snapshot lysozyme ./saved",
		Args:    cobra.ExactArgs(2), ValidArgsFunction: a.RunsTo(state.ToReach),
		RunE: func(c *cobra.Command, args []string) error {
			return a.vmSnapshot(c.Context(), args[0], args[1], asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

func (a *Commands) vmSnapshot(ctx context.Context, word, dir string, asJSON bool) error {
	s, run, err := a.OpenRun(ctx, word)
	if err != nil {
		return err
	}
	defer s.Close()
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	kept, err := s.Export(ctx, run, dir, func(into string) error {
		conn, err := s.DialNode(ctx, run, 0)
		if err != nil {
			return err
		}
		node, err := client.New(conn)
		if err != nil {
			return err
		}
		defer node.Close()
		return node.Snapshot(ctx, into)
	})
	if err != nil {
		return err
	}
	if asJSON {
		return a.WriteJSON(kept)
	}
	a.Say("saved in %s: %s; `bee vm restore` brings it up once the run has ended", workspace.ShortPath(dir), console.BytesText(kept.Bytes))
	return nil
}
