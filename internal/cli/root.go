// Package cli is what people type: one file per command. A command turns its
// flags into calls of other packages and their answers into text or JSON; it
// decides nothing about runs itself.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/spf13/cobra"
)

// app is what all commands share: where things are, and where to write.
type app struct {
	stateDir string
	cacheDir string
	sites    string
	verbose  bool
	stdout   io.Writer
	stderr   io.Writer
}

// Main runs the command line and gives the exit code.
func Main(ctx context.Context, args []string) int {
	keepInherited()
	a := &app{stdout: os.Stdout, stderr: os.Stderr}
	root := a.newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if done, ok := errors.AsType[exitError](err); ok {
		return done.code
	}
	printError(a.stderr, err)
	return codeOf(err)
}

// Commands returns all commands, for what is checked of them.
func Commands() *cobra.Command { return (&app{stdout: io.Discard, stderr: io.Discard}).newRoot() }

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "bee",
		Short: "Run Docker images of MPI applications, unmodified, wherever you have an account",
		Long: `bee runs a Docker image of an MPI application, unmodified, on machines where
you have accounts. They are this one, emulated hosts on it, machines behind ssh,
or Slurm clusters. It needs no root and no installation but itself.

A Beefile describes the job, a sites file your machines:

  bee run job.yaml        run it, and collect its results
  bee ps                  list runs
  bee doctor              check this machine and your sites`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.stateDir, "state", "", "`directory` of run records (default $BEE_STATE, else $XDG_STATE_HOME/bee)")
	flags.StringVar(&a.cacheDir, "cache", "", "`directory` of the image cache (default $BEE_CACHE, else $XDG_CACHE_HOME/bee)")
	flags.StringVar(&a.sites, "sites", "", "sites `file` (default $BEE_SITES, else $XDG_CONFIG_HOME/bee/sites.yaml)")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "write a debug log to standard error")
	root.SetFlagErrorFunc(wrongFlags)
	// A template for it would keep all methods of all types in the binary.
	root.Version = versionText()
	root.AddGroup(&cobra.Group{ID: "runs", Title: "Runs:"}, &cobra.Group{ID: "files", Title: "Files and images:"}, &cobra.Group{ID: "machine", Title: "Machines:"})
	group := func(id string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID, c.SuggestFor = id, elsewhere[c.Name()]
			root.AddCommand(c)
		}
	}
	group("runs", a.newRunCommand(), a.newPsCommand(), a.newShowCommand(), a.newLogsCommand(), a.newExecCommand(), a.newSSHCommand(),
		a.newStopCommand(), a.newCheckpointCommand(), a.newMoveCommand(), a.newPlanCommand(), a.newResumeCommand(), a.newSuperviseCommand(), a.newRmCommand(), a.newSweepCommand())
	group("files", a.newCheckCommand(), a.newConvertCommand(), a.newSchemaCommand(), a.newBenchCommand(), a.newImageCommand(), a.newDataCommand())
	group("machine", a.newDoctorCommand(), a.newVMCommand(), a.newFabricCommand(), a.newEmulateCommand())
	root.AddCommand(a.newDriveCommand(), a.newVersionCommand())
	root.InitDefaultCompletionCmd() // now, that it is seen to as well
	root.SetHelpCommand(newHelpCommand(root))
	refuseWrongArguments(root)
	addExamples(root)
	return root
}

// paths fills in the directories that flags left open.
func (a *app) paths() error {
	home := func(given, variable, xdg, fallback string) (string, error) {
		switch {
		case given != "":
			return filepath.Abs(given)
		case os.Getenv(variable) != "":
			return filepath.Abs(os.Getenv(variable))
		case filepath.IsAbs(os.Getenv(xdg)):
			return filepath.Join(os.Getenv(xdg), "bee"), nil
		}
		dir, err := os.UserHomeDir()
		if err != nil {
			return "", &core.Error{
				Kind: core.Invalid, Op: "find the home directory", Err: err,
				Remedy: "Set HOME, or " + variable + ".",
			}
		}
		return filepath.Join(dir, fallback, "bee"), nil
	}
	var err1, err2 error
	a.stateDir, err1 = home(a.stateDir, "BEE_STATE", "XDG_STATE_HOME", ".local/state")
	a.cacheDir, err2 = home(a.cacheDir, "BEE_CACHE", "XDG_CACHE_HOME", ".cache")
	return errors.Join(err1, err2)
}

func (a *app) log() *slog.Logger {
	level := slog.LevelWarn
	if a.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

func printError(w io.Writer, err error) {
	fmt.Fprintf(w, "bee: %s\n", printable(err.Error())) //nolint:errcheck // there is nobody else to tell
	if remedy := core.Remedy(err); remedy != "" {
		fmt.Fprintf(w, "     %s\n", printable(remedy)) //nolint:errcheck // there is nobody else to tell
	}
}
