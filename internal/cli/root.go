// Package cli is the tree of commands. The rooms below it have the commands, one file each,
// and it puts them together. A command turns its flags into calls of other packages and
// their answers into text or JSON; it decides nothing about runs itself.
package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/bee-hpc/bee/internal/cli/benchcmd"
	"github.com/bee-hpc/bee/internal/cli/cloudcmd"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/imagecmd"
	"github.com/bee-hpc/bee/internal/cli/nodecmd"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/recordcmd"
	"github.com/bee-hpc/bee/internal/cli/runcmd"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/setupcmd"
	"github.com/bee-hpc/bee/internal/cli/stopcmd"
	"github.com/bee-hpc/bee/internal/cli/usage"
	"github.com/bee-hpc/bee/internal/cli/volumecmd"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// app makes all commands over one workspace.
type app struct{ *workspace.Workspace }

func newApp(stdout, stderr io.Writer) *app {
	return &app{workspace.New(stdout, stderr, Version)}
}

// Main runs the command line and gives the exit code.
func Main(ctx context.Context, args []string) int {
	keepInherited()
	a := newApp(os.Stdout, os.Stderr)
	return a.execute(ctx, a.newRoot(), args)
}

// execute runs a command line, prints its error and returns its exit code.
func (a *app) execute(ctx context.Context, root *cobra.Command, args []string) int {
	a.Args = args
	if slices.Contains(args, cobra.ShellCompRequestCmd) {
		withoutQuotes(root)
	}
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if done, ok := errors.AsType[console.Exit](err); ok {
		return int(done)
	}
	a.PrintError(err)
	return console.CodeOf(err)
}

// withoutQuotes removes the backquotes around the values of flags, which help alone reads.
func withoutQuotes(c *cobra.Command) {
	plain := func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) }
	c.PersistentFlags().VisitAll(plain)
	c.Flags().VisitAll(plain)
	for _, sub := range c.Commands() {
		withoutQuotes(sub)
	}
}

// Commands returns all commands, for what is checked of them.
func Commands() *cobra.Command { return newApp(io.Discard, io.Discard).newRoot() }

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "bee",
		Short: "Run Docker images of MPI applications, unmodified, wherever you have an account",
		Long: `bee runs a Docker image of an MPI application, unmodified, on machines where
you have accounts. They are this one, emulated hosts on it, machines behind ssh,
Slurm clusters, or machines rented from AWS or OpenStack. It needs no root and no
installation but itself.

A Beefile describes the job, a sites file your machines:

  bee run job.yaml        run it, and collect its results
  bee ps                  list runs
  bee doctor              check this machine and your sites
  bee help                list commands, and topics such as beefile, sites and mpi`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.StateDir, "state-dir", "", "`directory` of run records (default $BEE_STATE, else $XDG_STATE_HOME/bee)")
	flags.StringVar(&a.CacheDir, "cache", "", "`directory` of the image cache (default $BEE_CACHE, else $XDG_CACHE_HOME/bee)")
	flags.StringVar(&a.Sites, "sites", "", "sites `file` (default $BEE_SITES, else $XDG_CONFIG_HOME/bee/sites.yaml)")
	flags.BoolVar(&a.Verbose, "verbose", false, "write a debug log to standard error")
	flags.Var(&a.Color, "color", "`mode` of colours: auto (on a terminal, unless NO_COLOR is set), always or never")
	flags.BoolVar(&a.JSONErrors, "json-errors", false, "write errors on standard error as JSON, one a line")
	a.FormerStateFlag(flags)
	workspace.WordsFlag(root, "color", "auto", "always", "never")
	root.SetFlagErrorFunc(usage.WrongFlags)
	// A template for it would keep all methods of all types in the binary.
	root.Version = setupcmd.VersionText(a.Version)
	root.AddGroup(&cobra.Group{ID: "runs", Title: "Runs:"}, &cobra.Group{ID: "files", Title: "Files and images:"}, &cobra.Group{ID: "machine", Title: "Machines:"})
	group := func(id string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID, c.SuggestFor = id, usage.Elsewhere[c.Name()]
			root.AddCommand(c)
		}
	}
	volumes := volumecmd.New(a.Workspace)
	nodes := nodecmd.New(a.Workspace)
	records := recordcmd.New(a.Workspace)
	setup := setupcmd.New(a.Workspace)
	images := imagecmd.New(a.Workspace)
	stopping := stopcmd.New(a.Workspace, showRun)
	running := runcmd.New(a.Workspace, runcmd.Records{
		Follow: func(ctx context.Context, s *workspace.Session, run string) error {
			return records.TaskOutput(ctx, s, run, recordcmd.LogsOptions{Node: -1, Follow: true})
		},
		FollowSeveral: recordcmd.FollowSeveral,
		Stop:          stopping.StopNamed,
		Results:       records.WriteResults,
	})
	resuming := runcmd.NewResume(a.Workspace)
	vm := newVMCommand(images.VMBuildCommand(), images.VMBundleCommand(), images.VMImageCommand(), nodes.VMShellCommand(), nodes.VMConsoleCommand(),
		nodes.VMSnapshotCommand(), running.VMRestoreCommand())
	group("runs", running.RunCommand(), running.RetryCommand(), records.PsCommand(), records.ShowCommand(), records.ReportCommand(), records.CompareCommand(), records.WebCommand(), records.LogsCommand(), nodes.ExecCommand(), nodes.CpCommand(), nodes.ForwardCommand(), records.StatsCommand(), nodes.SSHCommand(),
		stopping.StopCommand(), records.WaitCommand(), records.EventsCommand(), resuming.CheckpointCommand(), resuming.MoveCommand(), running.PlanCommand(), resuming.ResumeCommand(), stopping.SuperviseCommand(), stopping.RmCommand(), stopping.SweepCommand())
	group("files", setup.InitCommand(), running.CheckCommand(), setup.ConvertCommand(), setup.SchemaCommand(), benchcmd.New(a.Workspace).Command(), volumes.BurstCommand(), images.Command(), volumes.DataCommand(), volumes.VolumeCommand())
	group("machine", cloudcmd.New(a.Workspace).Command(), setup.DoctorCommand(), setup.InfoCommand(), records.MetricsCommand(), vm, nodes.FabricCommand(), nodes.RDMACommand(), nodes.EmulateCommand())
	root.AddCommand(stopping.DriveCommand(), setup.VersionCommand())
	root.InitDefaultCompletionCmd() // now, that it is seen to as well
	setupcmd.CompleteBashAlone(root)
	root.SetHelpCommand(setup.HelpCommand(root))
	usage.RefuseWrongArguments(root)
	addExamples(root)
	return root
}

// showRun writes a run as `bee show` prints it.
func showRun(w io.Writer, v runview.View) error {
	table := output.On(w, output.Never).Prose()
	recordcmd.WriteRun(table, v)
	return table.Flush()
}
