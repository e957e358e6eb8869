package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/logfile"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/supervisor"
)

// TestTheLogOfAControllerIsBounded: a run that is tried again for months, or whose site
// has much to report, does not fill the disk.
func TestTheLogOfAControllerIsBounded(t *testing.T) {
	d := newDesk(t, state.Run{ID: "flooded1", State: state.Succeeded, Submission: []byte("7")}) // which no controller can read
	log := workspace.ControllerLog(d.store.RunDir("flooded1"))
	if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o700), os.WriteFile(log, bytes.Repeat([]byte("a line\n"), logfile.Limit/7), 0o600)); err != nil {
		t.Fatal(err)
	}
	a := newApp(io.Discard, io.Discard)
	s := &workspace.Session{Workspace: a.Workspace, Controller: &control.Controller{Store: d.store, Log: a.Log()}}
	for range 3 {
		if err := controlOnce(t.Context(), s, "flooded1", supervisor.NewStop(), time.Second); err == nil {
			t.Fatal("a controller has read it")
		}
	}
	var sum int64
	for file, most := range map[string]int64{log: 100_000, logfile.Older(log): logfile.Limit} {
		info, err := os.Stat(file)
		if err != nil || info.Size() > most {
			t.Fatalf("%s: %+v, %v", file, info, err)
		}
		sum += info.Size()
	}
	if err := d.bee("logs", "--controller", "flooded1"); err != nil || !strings.HasPrefix(d.out.String(), "a line\n") || int64(d.out.Len()) != sum {
		t.Errorf("it shows %d bytes of %d: %v", d.out.Len(), sum, err)
	}
}
