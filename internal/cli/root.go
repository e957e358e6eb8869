// Package cli is what people type: one file per command. A command turns its
// flags into calls of other packages and their answers into text or JSON; it
// decides nothing about runs itself.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/spf13/cobra"
)

// app is what all commands share: where things are, and where to write.
type app struct {
	stateDir string
	cacheDir string
	sites    string
	verbose  bool
	color    output.Color
	// jsonErrors: errors are JSON, for programs that call bee.
	jsonErrors bool
	stdout     io.Writer
	stderr     io.Writer
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
	a.printError(err)
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
	flags.BoolVar(&a.verbose, "verbose", false, "write a debug log to standard error")
	flags.Var(&a.color, "color", "`when` to use colours: auto (on a terminal, unless NO_COLOR is set), always or never")
	flags.BoolVar(&a.jsonErrors, "json-errors", false, "write errors on standard error as JSON, one a line")
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
	group("runs", a.newRunCommand(), a.newPsCommand(), a.newShowCommand(), a.newReportCommand(), a.newLogsCommand(), a.newExecCommand(), a.newCpCommand(), a.newForwardCommand(), a.newStatsCommand(), a.newSSHCommand(),
		a.newStopCommand(), a.newWaitCommand(), a.newEventsCommand(), a.newCheckpointCommand(), a.newMoveCommand(), a.newPlanCommand(), a.newResumeCommand(), a.newSuperviseCommand(), a.newRmCommand(), a.newSweepCommand())
	group("files", a.newInitCommand(), a.newCheckCommand(), a.newConvertCommand(), a.newSchemaCommand(), a.newBenchCommand(), a.newBurstCommand(), a.newImageCommand(), a.newDataCommand(), a.newVolumeCommand())
	group("machine", a.newDoctorCommand(), a.newInfoCommand(), a.newMetricsCommand(), a.newVMCommand(), a.newFabricCommand(), a.newEmulateCommand())
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
				Remedy: "Set HOME, or BEE_STATE and BEE_CACHE.",
			}
		}
		return filepath.Join(dir, fallback, "bee"), nil
	}
	var err error
	if a.stateDir, err = home(a.stateDir, "BEE_STATE", "XDG_STATE_HOME", ".local/state"); err != nil {
		return err
	}
	a.cacheDir, err = home(a.cacheDir, "BEE_CACHE", "XDG_CACHE_HOME", ".cache")
	return err
}

func (a *app) log() *slog.Logger {
	level := slog.LevelWarn
	if a.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

// on returns what a stream can show.
func (a *app) on(w io.Writer) *output.Screen { return output.On(w, a.color) }

// say writes a message on standard error.
func (a *app) say(format string, args ...any) { a.on(a.stderr).Say(format, args...) }

func (a *app) printError(err error) {
	if a.jsonErrors {
		json.NewEncoder(a.stderr).Encode(failureOf(err)) //nolint:errcheck // there is nobody else to report it to
		return
	}
	a.on(a.stderr).Error(err)
}

// printable is output.Printable.
func printable(s string) string { return output.Printable(s) }
