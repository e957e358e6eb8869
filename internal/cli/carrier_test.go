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

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/logfile"
	"github.com/bee-hpc/bee/internal/state"
)

// TestACarrierForgetsNoRunThatIsHandedOverLate: a run that its user resumes or
// stops just when its carrier is done with it is carried on.
func TestACarrierForgetsNoRunThatIsHandedOverLate(t *testing.T) {
	d := newDesk(t, state.Run{ID: "resumed1", State: state.Queued}, state.Run{ID: "stopped1", State: state.Suspended},
		state.Run{ID: "waiting1", State: state.Suspended}, state.Run{ID: "ended111", State: state.Succeeded}, state.Run{ID: "another1", State: state.Running})
	if err := d.store.AskStop(t.Context(), "stopped1"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.store.Lock("another1"); err != nil { // as another carrier does
		t.Fatal(err)
	}
	c := newCarrier(&session{Controller: &control.Controller{Store: d.store}}, t.TempDir(), marked{})
	for id, again := range map[string]bool{"resumed1": true, "stopped1": true, "waiting1": false, "ended111": false, "another1": false, "removed1": false} {
		c.runs[id] = &carried{}
		if lock := c.letGo(t.Context(), id); (lock != nil) != again || (c.runs[id] != nil) != again {
			t.Errorf("%s: given a lock %v, still carried %v; want %v", id, lock != nil, c.runs[id] != nil, again)
		}
	}
}

// TestARunThatIsHandedOverIsNoOrphan, to no command that comes before a busy carrier has
// taken it: each would start a process, and all of these take the carrier's processors.
// Where the carrier is gone it is one.
func TestARunThatIsHandedOverIsNoOrphan(t *testing.T) {
	d := newDesk(t, state.Run{ID: "handed11", State: state.Queued}, state.Run{ID: "orphan11", State: state.Queued})
	s := &session{Controller: &control.Controller{Store: d.store}}
	lock, err := d.store.LockCarrier("key")
	if err != nil {
		t.Fatal(err)
	}
	if err := leaveNames(d.store.Carrier("key"), []string{"handed11"}); err != nil {
		t.Fatal(err)
	}
	if !s.handedOver("handed11") || s.handedOver("orphan11") {
		t.Errorf("handed over: %v, and one that nobody has left: %v", s.handedOver("handed11"), s.handedOver("orphan11"))
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if s.handedOver("handed11") {
		t.Error("a run is handed over to a carrier that has ended")
	}
}

// TestTheLogOfAControllerIsBounded: a run that is tried again for months, or whose site
// has much to report, does not fill the disk.
func TestTheLogOfAControllerIsBounded(t *testing.T) {
	d := newDesk(t, state.Run{ID: "flooded1", State: state.Succeeded, Submission: []byte("7")}) // which no controller can read
	log := controllerLog(d.store.RunDir("flooded1"))
	if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o700), os.WriteFile(log, bytes.Repeat([]byte("a line\n"), logfile.Limit/7), 0o600)); err != nil {
		t.Fatal(err)
	}
	a := &app{stdout: io.Discard, stderr: io.Discard}
	c := newCarrier(&session{app: a, Controller: &control.Controller{Store: d.store, Log: a.log()}}, t.TempDir(), marked{})
	for range 3 {
		if err := c.drive(t.Context(), "flooded1", &carried{stop: make(chan struct{})}, time.Second); err == nil {
			t.Fatal("it was carried")
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
