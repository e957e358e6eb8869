package studies

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/study"
)

// printed are the texts that the jobs of studies have printed.
var printed = map[string]string{
	"layers": "mpi-io.txt", "apps": "lammps.txt", "bee-compute": "lammps.txt", "bee-scaling": "lammps.txt", "bee-storage": "files.txt", "beserra-stage2-io": "files.txt",
}

// TestFiguresOfRealOutput reads the figures of studies, and the marks of right answers, from
// what HPCC, NetPIPE, fio, LAMMPS and the programs of the studies for MPI-IO have written, by the
// packages of Debian 12. Programs that are built from a user's sources are not at hand.
func TestFiguresOfRealOutput(t *testing.T) {
	used, read := map[string]bool{}, 0
	output := func(name, file string) ([]byte, bool) {
		if file == "" {
			if file = printed[name]; file == "" {
				return nil, false
			}
		}
		text, err := os.ReadFile(filepath.Join("testdata", "output", filepath.Base(file)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err == nil {
			used[filepath.Base(file)] = true
		}
		return text, err == nil
	}
	for _, name := range Names() {
		text, _ := Text(name)
		s, err := study.Parse(name+".yaml", []byte(text), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for metric, m := range s.Metrics {
			raw, known := output(name, m.SourceFile())
			if m.Builtin != "" || !known {
				continue
			}
			figures, err := m.Extract(t.Context(), raw)
			if err != nil || len(figures) == 0 || m.Sweep() && len(figures) < 4 {
				t.Errorf("%s: %s: %d figures, %v", name, metric, len(figures), err)
			}
			for _, f := range figures {
				if f.Value < 0 || math.IsInf(f.Value, 0) || m.Primary && f.Value == 0 {
					t.Errorf("%s: %s is %v", name, metric, f)
				}
			}
			read++
		}
		for i := range s.Check {
			c := &s.Check[i]
			if raw, known := output(name, c.File); known {
				if err := c.Verify(t.Context(), raw); err != nil {
					t.Errorf("%s: a right answer is wrong: %v", name, err)
				}
			}
		}
	}
	all, err := os.ReadDir(filepath.Join("testdata", "output"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if !used[e.Name()] {
			t.Errorf("no study reads %s", e.Name())
		}
	}
	if read < 46 {
		t.Errorf("%d figures of studies are read", read)
	}
}
