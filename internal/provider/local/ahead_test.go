package local

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestANodeStartedAheadIsTheOneThatIsLaunched has a node read its place and its
// orders, once; whoever launches after that, or when it has ended, gets another.
func TestANodeStartedAheadIsTheOneThatIsLaunched(t *testing.T) {
	dir := scratch(t)
	node := filepath.Join(dir, "node") // tells what it reads, and that it lives
	if err := os.WriteFile(node, []byte("#!/bin/sh\ncat > "+dir+"/part.$$\nmv "+dir+"/part.$$ "+dir+"/read.$$\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ahead := StartAhead(node)
	if ahead == nil {
		t.Fatal("no node was started")
	}
	p, err := New(Settings{Scratch: dir, Ahead: ahead})
	if err != nil {
		t.Fatal(err)
	}
	for i, first := range []bool{true, false} {
		attempt := i + 1
		l, id := launchedBy(t, p, attempt, node)
		if first != (id.PID == ahead.cmd.Process.Pid) {
			t.Errorf("launch %d: node %d, the one ahead is %d", attempt, id.PID, ahead.cmd.Process.Pid)
		}
		orders := json.NewDecoder(bytes.NewReader(readBy(t, filepath.Join(dir, "read."+strconv.Itoa(id.PID)))))
		if first {
			var place map[string]driver.NodePlace
			if err := orders.Decode(&place); err != nil || len(place["place"].Env) != 1 || place["place"].Log == "" {
				t.Errorf("the node reads %v as its place, %v", place, err)
			}
		}
		var config string
		if err := orders.Decode(&config); err != nil || config != "orders" {
			t.Errorf("launch %d: the node reads %q, %v", attempt, config, err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if id.Alive() {
			t.Errorf("launch %d: node %d outlives its lease", attempt, id.PID)
		}
	}
	ahead.End() // it was taken: nothing to end

	gone := StartAhead(node)
	if err := gone.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-gone.ended
	if p, err = New(Settings{Scratch: dir, Ahead: gone}); err != nil {
		t.Fatal(err)
	}
	l, id := launchedBy(t, p, 3, node)
	if id.PID == gone.cmd.Process.Pid {
		t.Error("a dead node was launched")
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// launchedBy gives the lease of an attempt on which a node of that binary was
// launched, and the process that is recorded as the node.
func launchedBy(t *testing.T, p driver.Provider, attempt int, binary string) (driver.Lease, procid.ID) {
	t.Helper()
	l, err := p.Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "r", Attempt: attempt}, Nodes: 1, Binary: binary})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Launch(t.Context(), driver.NodeCommand{Config: []byte(`"orders"`), Log: nodeLog(l)}); err != nil {
		t.Fatal(err)
	}
	id, err := readNode(l.(*lease).nodePath(0))
	if err != nil {
		t.Fatal(err)
	}
	return l, id
}

// readBy waits for what a node has read.
func readBy(t *testing.T, path string) []byte {
	t.Helper()
	var raw []byte
	testkit.Eventually(t, time.Minute, func() (err error) {
		raw, err = os.ReadFile(path)
		return err
	})
	return raw
}

// TestANodeStartedAheadForNothingEnds reads the end of its input.
func TestANodeStartedAheadForNothingEnds(t *testing.T) {
	a := StartAhead("/bin/cat")
	a.End()
	if unix.Kill(a.cmd.Process.Pid, 0) == nil {
		t.Error("it lives")
	}
	a.End() // again
	var none *Ahead
	none.End()
	if none.take("/bin/cat") != nil || a.take("/bin/cat") != nil {
		t.Error("what has ended, or never was, can be launched")
	}
	if StartAhead("/nonexistent") != nil {
		t.Error("what cannot be started was")
	}
}
