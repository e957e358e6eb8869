package recordcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/inside"
)

func TestRatesOfStats(t *testing.T) {
	now := time.Now()
	n := &watchedNode{}
	n.since(core.Sample{Time: now, CPUSeconds: 10, ReadBytes: 100, WriteBytes: 50})
	if n.view.CoresUsed != 0 {
		t.Errorf("of one sample: %+v", n.view)
	}
	n.since(core.Sample{Time: now.Add(2 * time.Second), CPUSeconds: 13, ReadBytes: 300, WriteBytes: 10})
	if n.view.CoresUsed != 1.5 || n.view.ReadBytesPerSecond != 100 || n.view.WriteBytesPerSecond != 0 {
		t.Errorf("got %+v", n.view)
	}
	b := &board{nodes: []*watchedNode{n}}
	for _, hostile := range []string{"{}\nnonsense\n", `{"cpu_seconds":-1}` + "\n", strings.Repeat("x", 2*inside.MaxSample)} {
		if err := b.take(n, strings.NewReader(hostile)); err == nil {
			t.Errorf("%.40q is taken", hostile)
		}
	}
}
