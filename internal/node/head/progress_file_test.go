package head

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/plan"
	"golang.org/x/sys/unix"
)

// TestFileOfProgress: only a small plain file in the volume is read. Of each other one there is one
// warning, and no look hangs.
func TestFileOfProgress(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, map[string]string{"progress": "1 2"})
	for name, c := range map[string]struct {
		make     func(volume string) error
		is       bool
		warnings int
	}{
		"plain": {func(v string) error { write(t, v, map[string]string{"run/progress": "30 40\n"}); return nil }, true, 0},
		"over a link": {func(v string) error {
			write(t, v, map[string]string{"other/progress": "30 40"})
			link(t, "other", v+"/run")
			return nil
		}, true, 0},
		"none":            {func(string) error { return nil }, false, 0},
		"a link":          {func(v string) error { link(t, outside+"/progress", v+"/run/progress"); return nil }, false, 1},
		"over a link out": {func(v string) error { link(t, outside, v+"/run"); return nil }, false, 1},
		"a FIFO":          {func(v string) error { return unix.Mkfifo(v+"/run/progress", 0o600) }, false, 1},
		"a directory":     {func(v string) error { return os.Mkdir(v+"/run/progress", 0o700) }, false, 1},
		"large": {func(v string) error {
			return os.WriteFile(v+"/run/progress", []byte("30 40"+strings.Repeat(" ", maxProgress)), 0o600)
		}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h, volume := volumeHead(t)
			h.plan.ProgressFile = "/data/run/progress"
			if err := os.MkdirAll(filepath.Join(volume, "run"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := c.make(volume); err != nil {
				t.Fatal(err)
			}
			n := newNumbers(h.plan, h.volumes, h.journal)
			n.follow()()
			<-n.file.look()
			var warnings int
			var got []plan.Measured
			for _, e := range eventsOf(h.journal) {
				if e.Remark {
					warnings++
				}
				if e.Measured != nil {
					got = append(got, *e.Measured)
				}
			}
			if warnings != c.warnings || c.is != slices.ContainsFunc(got, func(m plan.Measured) bool { return m.Done == 30 && m.Total == 40 }) || len(got) > 1 {
				t.Errorf("%d warnings, progress %+v", warnings, got)
			}
		})
	}
}

// TestLooksForProgress: while a look has not ended, as the file system does not answer, no other begins.
func TestLooksForProgress(t *testing.T) {
	f := progressFile{looked: make(chan struct{})}
	if looked := f.look(); looked != f.looked {
		t.Error("another look has begun")
	}
}

// TestTheTotalOfAProgram: it is read from the program's own file in the volume, once.
func TestTheTotalOfAProgram(t *testing.T) {
	h, volume := volumeHead(t)
	h.plan.ProgressProgram, h.plan.Workdir = "openfoam", "/data/case"
	n := newNumbers(h.plan, h.volumes, h.journal)
	stream := n.stream()
	stream.Add([]byte("Time = 0.025\n"))
	n.follow()()
	if got := eventsOf(h.journal); len(got) != 0 {
		t.Errorf("without a total there is %+v", got)
	}
	write(t, volume, map[string]string{"case/system/controlDict": "startTime 0;\nendTime         0.1;\n"})
	n.follow()()
	write(t, volume, map[string]string{"case/system/controlDict": "endTime 7;\n"})
	n.follow()()
	got := eventsOf(h.journal)
	if len(got) != 1 || got[0].Measured == nil || got[0].Measured.Done != 0.025 || got[0].Measured.Total != 0.1 {
		t.Errorf("%+v", got)
	}
	h.plan.Workdir = "/elsewhere"
	if n = newNumbers(h.plan, h.volumes, h.journal); n.file != nil {
		t.Error("a file outside of the volume is looked for")
	}
}
