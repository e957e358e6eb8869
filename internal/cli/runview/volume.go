package runview

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
)

// Volume is a burst buffer, as --json prints it.
type Volume struct {
	calls.Status
	// Run is the run whose volume it is; absent: it is no run's.
	Run string `json:"run,omitempty"`
	// Running is whether its I/O process runs.
	Running bool `json:"running"`
	// Missing is whether its buffer is not there.
	Missing bool `json:"missing,omitempty"`
}

// VolumeOf describes a volume of this host.
func VolumeOf(ctx context.Context, c burst.Config) (Volume, error) {
	s, running, err := c.Look(ctx)
	v := Volume{Status: s, Run: c.Of, Running: running}
	if core.IsKind(err, core.Transient) && errors.Is(err, fs.ErrNotExist) { // it does not hide others
		v.Place, v.Waits, v.Missing, err = c.Place, output.Printable(err.Error())+": "+core.Remedy(err), true, nil
	}
	return v, err
}

// volumes is the directory of the records of burst buffers in a state directory.
func volumes(stateDir string) string { return filepath.Join(stateDir, "volumes") }

// RunVolume gives the burst buffer that a run has on this host, the newest that has the remote; false: it
// has none.
func RunVolume(stateDir, run string) (found burst.Config, is bool, err error) {
	all, err := burst.All(volumes(stateDir))
	for _, c := range all {
		if c.Of == run && (!is || found.Superseded) {
			found, is = c, true
		}
	}
	return found, is, err
}

// volumeOf describes the burst buffer of a run on this host; nil: it has none.
func volumeOf(ctx context.Context, stateDir, run string) *Volume {
	c, is, err := RunVolume(stateDir, run)
	if err != nil || !is {
		return nil // `bee volume status` has the reason
	}
	v, err := VolumeOf(ctx, c)
	if err != nil {
		return nil
	}
	return &v
}

// Rows writes what there is to show of a volume, besides its place.
func (v Volume) Rows(row func(name, text string)) {
	row("state", v.StateText())
	if v.Refused != nil {
		row("remedy", v.Refused.Remedy+" Draining then continues by itself.")
	}
	if !v.Drained && !v.Missing {
		text := fmt.Sprintf("%s, %d changes", console.BytesText(v.Undrained), v.Changes)
		if v.Seconds != nil {
			text += fmt.Sprintf("; drained in about %s", console.DurationText(time.Duration(math.Ceil(*v.Seconds))*time.Second))
		}
		row("undrained", text)
	}
	if v.Local > 0 {
		row("local", console.BytesText(v.Local)+", which stays in the buffer")
	}
	drained := fmt.Sprintf("%s in %d files", console.BytesText(v.Published), v.Files)
	if v.BytesPerSecond > 0 {
		drained += fmt.Sprintf(", the last ones at %s a second", console.BytesText(v.BytesPerSecond))
	}
	row("drained", drained)
	if read := v.Hits + v.Misses; read > 0 {
		row("read", fmt.Sprintf("%s, %s from the buffer, now %s a second", console.BytesText(read), share(v.Hits, read), console.BytesText(v.ReadRate)))
	}
	if v.Cached > 0 {
		row("kept", console.BytesText(v.Cached)+" of what was read")
	}
	if v.Written > 0 {
		row("written", fmt.Sprintf("%s, %s without a wait for room, now %s a second", console.BytesText(v.Written), share(v.Written-v.Delayed, v.Written), console.BytesText(v.WriteRate)))
	}
	for _, c := range v.Conflicts {
		as := "left as it is"
		if c.As != "" {
			as = "yours is " + output.Printable(c.As)
		}
		row("conflict", output.Printable(c.Path)+": "+as)
	}
}

func share(part, of int64) string { return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(of)) }

// StateText is a volume's state in words.
func (v Volume) StateText() string {
	switch {
	case v.Superseded:
		return "superseded: a later attempt of the run has the remote; `bee volume export " + v.ID + " DIR` saves what is undrained"
	case v.Ended != "" && !v.Drained:
		return "undrained, and its I/O process has ended (" + v.Ended + "): `bee volume drain " + v.Remote + "` continues"
	case v.Refused != nil:
		return fmt.Sprintf("refused by the remote (%s) for %s: %s", v.Refused.Reason, console.DurationText(time.Since(v.Refused.Since)), v.Waits)
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
