package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/inside"
	"github.com/bee-hpc/bee/internal/state"
)

func TestPlacesOfCopies(t *testing.T) {
	for word, want := range map[string]place{
		"file":             {path: "file"},
		"./a:b":            {path: "./a:b"},
		"/a:b":             {path: "/a:b"},
		"-":                {path: "-"},
		"md:log":           {run: "md", path: "log"},
		"md:/work/":        {run: "md", path: "/work/"},
		"md:1:/work":       {run: "md", rank: 1, path: "/work"},
		"md:12":            {run: "md", path: "12"},
		"md:x:y":           {run: "md", path: "x:y"},
		"md:99999999:file": {run: "md", path: "99999999:file"},
	} {
		if got, err := placeOf(word); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", word, got, err, want)
		}
	}
	if _, err := placeOf("md:"); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
		t.Errorf("no path: %v", err)
	}
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "md", State: state.Failed})
	for line, kind := range map[string]core.Kind{
		"cp a b": core.Invalid, "cp md:a md:b": core.Invalid, "cp md:a .": core.NotFound, "cp nosuch:a .": core.NotFound,
		"forward md 80": core.NotFound, "forward md 0": core.Invalid, "forward md 80:90:100": core.Invalid, "forward md http": core.Invalid, "forward md 70000": core.Invalid,
		"stats nosuch": core.NotFound,
	} {
		if err := d.bee(strings.Fields(line)...); !core.IsKind(err, kind) || core.Remedy(err) == "" {
			t.Errorf("%s: %v", line, err)
		}
	}
	if err := d.bee("stats", "--no-stream", "--json"); err != nil || d.out.String() != "[]\n" {
		t.Errorf("stats of nothing: %v, %q", err, d.out.String())
	}
}

func TestCopiesAreCompleted(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Running})
	if err := d.bee("__complete", "cp", ""); err != nil || !strings.HasPrefix(d.out.String(), "pi:\trunning") {
		t.Errorf("%v: %q", err, d.out.String())
	}
	if err := d.bee("__complete", "cp", "./"); err != nil || !strings.HasPrefix(d.out.String(), ":0") {
		t.Errorf("a file: %v: %q", err, d.out.String())
	}
}

func TestRatesOfStats(t *testing.T) {
	now := time.Now()
	n := &watchedNode{}
	n.since(inside.Sample{Time: now, CPUSeconds: 10, ReadBytes: 100, WriteBytes: 50})
	if n.view.CoresUsed != 0 {
		t.Errorf("of one sample: %+v", n.view)
	}
	n.since(inside.Sample{Time: now.Add(2 * time.Second), CPUSeconds: 13, ReadBytes: 300, WriteBytes: 10})
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
