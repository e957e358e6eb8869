package nodecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/inside"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/tarcopy"
	"github.com/bee-hpc/bee/internal/treesync"
	"github.com/spf13/cobra"
)

// completeCopy completes an argument of bee cp, which may be a file of this machine, too.
func (a *Commands) completeCopy(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if strings.ContainsAny(begun, ":/") || len(args) > 1 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	words, directive := a.RunsTo(state.ToReach)(c, nil, begun)
	if len(words) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	for i, w := range words {
		word, about, _ := strings.Cut(w, "\t")
		words[i] = word + ":\t" + about
	}
	return words, directive&^cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// CpCommand returns the command `cp`.
func (a *Commands) CpCommand() *cobra.Command {
	var quiet bool
	c := &cobra.Command{
		Use: "cp SOURCE TARGET", Short: "Copy files to or from a running job", ValidArgsFunction: a.completeCopy,
		Long: `Copy files and directories between this machine and the container of a running job. One
of the two is RUN:PATH, or RUN:NODE:PATH with the rank of a node. A path that is not
absolute begins in the job's working directory, which is the volume unless the job names
another one. The rules are those of docker cp:

  a file to a directory is copied into it, else becomes or replaces TARGET
  a directory becomes TARGET, or is copied into a TARGET that is there
  SOURCE/. is the content of a directory
  - is a tar archive on standard input or output

Links that lead out of what is copied are left out, and are an error at the end.`,
		Example: "  bee cp lysozyme:md.log .\n  bee cp input.dat lysozyme:/work/\n  bee cp lysozyme:1:/tmp/core - | tar -t",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, done := console.UntilInterrupt(c.Context())
			defer done()
			err := a.cp(ctx, args[0], args[1], quiet)
			if err != nil && ctx.Err() != nil {
				err = &core.Error{Kind: core.Stopped, Op: "copy", Object: args[0], Err: errors.New("interrupted; what is not there yet was not copied"), Remedy: "What was copied is still there: remove it, and give the command again. `SOURCE/.` copies into a directory that is there."}
			}
			return err
		},
	}
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "show no progress")
	return c
}

// place is one end of a copy.
type place struct {
	run  string // "": this machine
	rank int
	path string
}

var inRun = regexp.MustCompile(`^([^:/]+):(?:([0-9]{1,7}):)?(.*)$`)

// placeOf reads an argument of bee cp. A name of this machine with a colon is written with
// a slash before it.
func placeOf(word string) (place, error) {
	m := inRun.FindStringSubmatch(word)
	if m == nil {
		return place{path: word}, nil
	}
	p := place{run: m[1], path: m[3]}
	if m[2] != "" {
		var err error
		if p.rank, err = strconv.Atoi(m[2]); err != nil {
			return p, err
		}
	}
	if p.path == "" || strings.ContainsRune(p.path, 0) {
		return p, &core.Error{Kind: core.Invalid, Op: "read arguments", Object: word, Err: errors.New("it names no path"), Remedy: "Write RUN:PATH; RUN:. is the job's working directory."}
	}
	return p, nil
}

func (a *Commands) cp(ctx context.Context, source, target string, quiet bool) error {
	from, err := placeOf(source)
	if err != nil {
		return err
	}
	to, err := placeOf(target)
	if err != nil {
		return err
	}
	if (from.run == "") == (to.run == "") {
		return &core.Error{
			Kind: core.Invalid, Op: "read arguments", Err: fmt.Errorf("%q and %q are both here, or both in a run", source, target),
			Remedy: "One of them is RUN:PATH. Between two runs, copy to this machine first; a file here with a colon in its name is written ./NAME.",
		}
	}
	if to.path == "-" && to.run == "" && output.IsTerminal(a.Stdout) {
		return &core.Error{Kind: core.Invalid, Op: "copy", Object: source, Err: errors.New("a tar archive is nothing for a terminal"), Remedy: "Write it to a file or a pipe: `bee cp " + source + " - | tar -t`."}
	}
	show := func(int64, int64) {}
	if !quiet {
		ui := console.NewProgress(a.Console, false)
		defer ui.Clear()
		show = func(done, total int64) {
			ui.Report(plan.Event{Message: "copying " + source, Done: done, Total: max(total, 0)})
		}
	}
	if from.run != "" {
		return a.copyOut(ctx, from, to.path, func(done int64) { show(done, 0) })
	}
	return a.copyIn(ctx, from.path, to, show)
}

// copyOut copies from a run.
func (a *Commands) copyOut(ctx context.Context, from place, to string, progress func(int64)) error {
	c, done, err := a.DialNode(ctx, from.run, from.rank)
	if err != nil {
		return err
	}
	defer done()
	if to == "-" {
		return workspace.RunInside(ctx, c, from.rank, inside.CopyOut(from.path), nil, a.Stdout)
	}
	read, write := io.Pipe()
	received := make(chan error, 1)
	go func() {
		err := tarcopy.Receive(ctx, read, tarcopy.Target{Path: to, Name: tarcopy.Name(from.path)}, progress)
		if err == nil || core.IsKind(err, core.Invalid) {
			_, rest := io.Copy(io.Discard, io.LimitReader(read, maxPadding))
			err = errors.Join(err, rest)
		}
		read.CloseWithError(workspace.ErrEnough)
		received <- err
	}()
	err = workspace.RunInside(ctx, c, from.rank, inside.CopyOut(from.path), nil, write)
	write.CloseWithError(err)
	rerr := <-received
	if err != nil && !errors.Is(err, workspace.ErrEnough) {
		return err
	}
	return rerr
}

// maxPadding bounds what may follow the end of an archive, in bytes.
const maxPadding = 1 << 20

// copyIn copies to a run.
func (a *Commands) copyIn(ctx context.Context, from string, to place, progress func(done, total int64)) error {
	target := tarcopy.Target{Path: to.path}
	var in io.Reader = os.Stdin
	sent := make(chan error, 1)
	sent <- nil
	if from != "-" {
		target.Name = tarcopy.Name(from)
		total := treesync.Size(ctx, from)
		read, write := io.Pipe()
		defer read.CloseWithError(workspace.ErrEnough)
		in, sent = read, make(chan error, 1)
		go func() {
			err := tarcopy.Send(ctx, write, from, func(done int64) { progress(done, total) })
			write.CloseWithError(err)
			sent <- err
		}()
	}
	c, done, err := a.DialNode(ctx, to.run, to.rank)
	if err != nil {
		return err
	}
	defer done()
	err = workspace.RunInside(ctx, c, to.rank, inside.CopyIn(target), in, io.Discard)
	select { // what was wrong here is the cause of what is wrong there
	case serr := <-sent:
		if serr != nil && !errors.Is(serr, workspace.ErrEnough) {
			return serr
		}
	default:
	}
	return err
}
