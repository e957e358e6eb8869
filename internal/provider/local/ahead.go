package local

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/driver"
)

// aheadFor is how long a node waits to be wanted: an image may take hours.
const aheadFor = 10 * time.Second

// Ahead is a node that was started before there is a lease for it: a process
// takes some milliseconds until it can do anything, in which whoever wants a run
// carried out here reads the Beefile, records the run and gets the lease. A node
// that is not wanted after all, or whose starter was killed, reads the end of its
// input and is gone.
type Ahead struct {
	binary string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	ended  chan struct{}
	once   sync.Once
}

// StartAhead starts a node of that binary. nil, which all methods take: it cannot
// be started, of which the launch will tell.
func StartAhead(binary string) *Ahead {
	cmd := nodeCommand(binary, []string{"bee", "node"}, os.Environ())
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil
	}
	if cmd.Start() != nil {
		return nil
	}
	a := &Ahead{binary: binary, cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		_ = cmd.Wait()
	}()
	time.AfterFunc(aheadFor, a.End)
	return a
}

// take gives the node to who launches one of that binary, once; nil: there is none.
func (a *Ahead) take(binary string) *Ahead {
	var taken *Ahead
	if a != nil && a.binary == binary {
		a.once.Do(func() { taken = a })
	}
	return taken
}

// enter tells the node what one that is launched has from its start: where its log
// is, and what is in its environment.
func (a *Ahead) enter(log, mark string) error {
	return json.NewEncoder(a.stdin).Encode(map[string]driver.NodePlace{"place": {Log: log, Env: []string{mark}}})
}

// End ends the node, unless it was taken.
func (a *Ahead) End() {
	if a == nil {
		return
	}
	a.once.Do(func() {
		_ = a.stdin.Close()
		<-a.ended
	})
}

// nodeCommand is a node's process, of a session of its own.
func nodeCommand(binary string, argv, env []string) *exec.Cmd {
	cmd := exec.Command(binary) //nolint:noctx // it outlives us
	cmd.Args, cmd.Env, cmd.Dir = argv, env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}
