package cli

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state"
)

// TestStopTellsWhatItWaitsFor: a run that does not end at once, as its site is
// slow to answer, ends only after the user was told.
func TestStopTellsWhatItWaitsFor(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Running})
	if err := d.store.PutAttempt(t.Context(), state.Attempt{Run: "aaaa1111", N: 1, Site: "rack", Started: time.Now()}, false); err != nil {
		t.Fatal(err)
	}
	controller, err := d.store.Lock("aaaa1111")
	if err != nil {
		t.Fatal(err)
	}
	defer controller.Unlock()       //nolint:errcheck // as its process ends, too
	told := make(chan os.Signal, 1) // this process is the controller, and heeds no TERM
	signal.Notify(told, syscall.SIGTERM)
	defer signal.Stop(told)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	said, stderr := io.Pipe()
	defer stderr.Close()
	go func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if strings.Contains(lines.Text(), "on site rack") {
				d.store.PutRun(ctx, state.Run{ID: "aaaa1111", Name: "pi", State: state.Stopped, StopAsked: true, Submission: []byte("{}")}) //nolint:errcheck // the test waits in vain then
			}
		}
	}()
	root := (&app{stdout: io.Discard, stderr: stderr}).newRoot()
	root.SetArgs([]string{"--state", filepath.Join(d.dir, "s"), "--cache", filepath.Join(d.dir, "c"), "stop", "pi"})
	if err := root.ExecuteContext(ctx); err != nil {
		t.Error(err)
	}
}
