package node_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/input"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/plan"
)

func withInput(p *plan.Plan) { p.Input = true }

// cutting reads a text, and cuts the line each time that so much of it was read.
type cutting struct {
	io.Reader
	each, read, cuts int
	line             atomic.Pointer[client.Client]
	cut              atomic.Bool
}

func (c *cutting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if c.read += n; c.read >= c.each && c.cuts < 3 {
		c.read, c.cuts = 0, c.cuts+1
		c.cut.Store(true)
		c.line.Load().Close()
	}
	return n, err
}

// TestInputOverLinesThatBreak: the command gets all of its input, and all of it once.
func TestInputOverLinesThatBreak(t *testing.T) {
	c := newCluster(t, 1, "cat", withPlan(withInput)).startAll()
	var text bytes.Buffer
	for i := range 150000 {
		fmt.Fprintln(&text, i)
	}
	from := &cutting{Reader: bytes.NewReader(text.Bytes()), each: text.Len() / 4}
	in := input.New(from)
	for again := true; again; again = from.cut.Swap(false) {
		line := c.dial(0)
		from.line.Store(line)
		err := line.Input(t.Context(), in)
		t.Logf("a line ended: %v", err)
	}
	if r := c.result(30 * time.Second); r.Exit == nil || r.Exit.Code != 0 {
		t.Errorf("result: %+v", r)
	}
	if out, _ := c.output(); out != text.String() {
		t.Errorf("it has read %d bytes that are not the %d", len(out), text.Len())
	}
	if from.cuts != 3 {
		t.Errorf("%d lines were cut", from.cuts)
	}
}

// TestInputOnATerminal: the first node's command has a terminal with a name.
func TestInputOnATerminal(t *testing.T) {
	c := newCluster(t, 1, `tty; stty size; echo "$TERM"; read x; echo "got $x"; read y || echo the end`, withPlan(withInput), withPlan(func(p *plan.Plan) {
		p.Terminal = &plan.Terminal{Type: "vt100", Rows: 33, Cols: 77}
	})).startAll()
	line := c.dial(0)
	if err := line.Input(t.Context(), input.New(strings.NewReader("typed\n"))); err != nil {
		t.Errorf("pass input: %v", err)
	}
	if r := c.result(10 * time.Second); r.Exit == nil || r.Exit.Code != 0 {
		t.Errorf("result: %+v", r)
	}
	out, _ := c.output()
	for _, want := range []string{"/dev/pts/", "33 77\r\n", "vt100\r\n", "got typed\r\n", "the end\r\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
}

// TestInputThatIsLost: a part of the input is not taken for all of it.
func TestInputThatIsLost(t *testing.T) {
	c := newCluster(t, 1, "echo begun; cat; echo all", withPlan(withInput)).startAll()
	c.awaitPhase(core.PhaseRun)
	line := c.dial(0)
	if _, err := line.Save(t.Context(), true); !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
		t.Errorf("moved with input that comes once: %v", err)
	}
	if err := line.Input(t.Context(), nil); err != nil {
		t.Errorf("report the loss: %v", err)
	}
	if r := c.result(10 * time.Second); r.Kind != core.Permanent.String() || r.Exit != nil || r.Remedy == "" {
		t.Errorf("result: %+v", r)
	}
	if out, _ := c.output(); strings.Contains(out, "all") {
		t.Errorf("it took a part for all: %q", out)
	}
}
