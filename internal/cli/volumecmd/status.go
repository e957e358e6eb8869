package volumecmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/spf13/cobra"
)

func (a *Commands) newVolumeStatusCommand() *cobra.Command {
	var asJSON, watch bool
	c := &cobra.Command{
		Use: "status [DIR]", Short: "Show what a volume has undrained, and what it waits for", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeVolumes,
		Long: `Show the volumes of this host, or that of a directory: what is undrained, since when,
how fast draining is, and what it waits for. DIR is where the volume is mounted, or
its remote.`,
		Example: "  bee volume status\n  bee volume status --watch work",
		RunE: func(c *cobra.Command, args []string) error {
			show := func(s *output.Screen) error { return a.volumesShown(c.Context(), s, args) }
			switch {
			case asJSON:
				list, err := a.volumesFound(c.Context(), args)
				if err != nil {
					return err
				}
				if len(args) == 1 {
					return a.WriteJSON(list[0])
				}
				return a.WriteJSON(list)
			case watch:
				return a.Watch(c.Context(), show)
			}
			return show(a.On(a.Stdout))
		},
	}
	c.Flags().BoolVarP(&watch, "watch", "w", false, "show it again and again, until an interrupt")
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	c.MarkFlagsMutuallyExclusive("watch", "json")
	return c
}

// volumeView is a volume, as --json prints it.
type volumeView struct {
	calls.Status
	// Running is whether its I/O process runs.
	Running bool `json:"running"`

	missing bool // its buffer is not there
}

// volumesFound gives what volumes say of themselves: that of a directory, or all.
func (a *Commands) volumesFound(ctx context.Context, args []string) ([]volumeView, error) {
	all, err := a.allVolumes()
	if err != nil {
		return nil, err
	}
	if len(args) == 1 {
		one, err := a.volume(args[0])
		if err != nil {
			return nil, err
		}
		all = []burst.Config{one}
	}
	list := []volumeView{}
	for _, c := range all {
		s, err := a.volumeStatus(ctx, c)
		if core.IsKind(err, core.Transient) && errors.Is(err, fs.ErrNotExist) { // it does not hide the others
			s.Place, s.Waits, s.missing, err = c.Place, output.Printable(err.Error())+": "+core.Remedy(err), true, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// volumeStatus asks the I/O process of a volume, or reads its buffer where none runs.
func (a *Commands) volumeStatus(ctx context.Context, c burst.Config) (volumeView, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		lock, err := c.Lock()
		if err == nil {
			s, err := burst.Inspect(c.Place)
			lock.Unlock()
			s.ID, s.Remote, s.Room, s.Superseded = c.ID, c.Remote, c.Room, c.Superseded
			return volumeView{Status: s}, err
		}
		if !core.IsKind(err, core.Busy) {
			return volumeView{}, err
		}
		peer, err := c.Dial(ctx)
		if err != nil { // it begins, or ends
			if err := core.Sleep(ctx, 50*time.Millisecond); err != nil {
				return volumeView{}, &core.Error{Kind: core.Transient, Op: "ask the I/O process of volume", Object: c.ID, Err: err, Remedy: "Read " + c.LogPath() + "."}
			}
			continue
		}
		defer peer.Close()
		s, err := rpc.Call(ctx, peer, calls.StatusCall, rpc.None{})
		return volumeView{Status: s, Running: true}, err
	}
}

func (a *Commands) volumesShown(ctx context.Context, screen *output.Screen, args []string) error {
	list, err := a.volumesFound(ctx, args)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		screen.Say("no volume is mounted or undrained on this host")
		return nil
	}
	for i, v := range list {
		if i > 0 {
			if _, err := fmt.Fprintln(screen); err != nil {
				return err
			}
		}
		t := screen.Prose()
		t.Row("volume", v.ID)
		t.Row("remote", v.Remote)
		if v.Mount != "" {
			t.Row("mounted at", v.Mount)
		}
		t.Row("state", volumeState(v))
		if !v.Drained && !v.missing {
			t.Row("undrained", fmt.Sprintf("%s, %d changes", console.BytesText(v.Undrained), v.Changes))
		}
		if v.Local > 0 {
			t.Row("local", console.BytesText(v.Local)+", which stays in the buffer")
		}
		if v.BytesPerSecond > 0 {
			t.Row("drains", console.BytesText(v.BytesPerSecond)+" a second")
		}
		t.Row("buffer", fmt.Sprintf("%s of %s at %s", console.BytesText(v.Buffer), console.BytesText(v.Room), v.Place))
		t.Row("drained", fmt.Sprintf("%s in %d files", console.BytesText(v.Published), v.Files))
		if read := v.Hits + v.Misses; read > 0 {
			t.Row("read", fmt.Sprintf("%s, %.0f %% from the buffer", console.BytesText(read), 100*float64(v.Hits)/float64(read)))
		}
		for _, c := range v.Conflicts {
			as := "left as it is"
			if c.As != "" {
				as = "yours is " + c.As
			}
			t.Row("conflict", c.Path+": "+as)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// volumeState is a volume's state in words.
func volumeState(v volumeView) string {
	switch {
	case v.Superseded:
		return "superseded: a later attempt of the run has the remote; `bee volume export " + v.ID + " DIR` saves what is undrained"
	case v.Waits != "":
		return "draining waits: " + v.Waits
	case v.Drained:
		return "drained"
	case !v.Running:
		return "undrained, and its I/O process has ended: `bee volume drain " + v.Remote + "` continues"
	case v.Oldest == nil:
		return "files are open that were written to"
	}
	return "draining, the oldest change is of " + console.DurationText(time.Since(*v.Oldest)) + " ago"
}
