package energy

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// tree writes files in the form of the kernel's: zones of processors, their parts, the
// platform, and those of another interface to the same processors.
func tree(t *testing.T, dir string, used map[string]string) {
	t.Helper()
	files := map[string]string{}
	for zone, name := range map[string]string{
		"intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "dram", "intel-rapl:1": "package-1",
		"intel-rapl:2": "psys", "intel-rapl-mmio:0": "package-0",
	} {
		files[zone+"/name"], files[zone+"/energy_uj"], files[zone+"/max_energy_range_uj"] = name, "0", "262143328850"
	}
	maps.Copy(files, used)
	for file, text := range files {
		at := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMeter(t *testing.T) {
	type counters = map[string]string
	for name, c := range map[string]struct {
		before, after counters
		late          time.Duration // since the counters were last read
		joules        float64
		missing       string // a file that is not there afterwards
	}{
		"whole processors": {
			before: counters{"intel-rapl:0/energy_uj": "1000000", "intel-rapl:0:0/energy_uj": "7"},
			after: counters{
				"intel-rapl:0/energy_uj": "3000000", "intel-rapl:1/energy_uj": "1500000",
				"intel-rapl:0:0/energy_uj": "2000000", "intel-rapl:0:1/energy_uj": "2000000", "intel-rapl:2/energy_uj": "9000000", "intel-rapl-mmio:0/energy_uj": "3000000",
			}, joules: 3.5,
		},
		"one continued at 0":          {before: counters{"intel-rapl:0/energy_uj": "262143328850"}, after: counters{"intel-rapl:0/energy_uj": "500000"}, joules: 0.5},
		"none counts":                 {},
		"one is no number":            {after: counters{"intel-rapl:0/energy_uj": "many"}},
		"one exceeds its most":        {after: counters{"intel-rapl:0/energy_uj": "262143328851"}},
		"one is gone":                 {after: counters{"intel-rapl:0/energy_uj": "9"}, missing: "intel-rapl:1"},
		"they were not read for long": {after: counters{"intel-rapl:0/energy_uj": "9000000"}, late: 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tree(t, dir, c.before)
			m := Start(dir)
			m.at = m.at.Add(-c.late)
			tree(t, dir, c.after)
			if c.missing != "" {
				if err := os.RemoveAll(filepath.Join(dir, c.missing)); err != nil {
					t.Fatal(err)
				}
			}
			got := m.Stop()
			if got.Joules != c.joules || (got.Unknown == "") != (c.joules > 0) || (got.Remedy == "") != (c.joules > 0) {
				t.Errorf("%+v, expected %v J, or else a reason and a remedy", got, c.joules)
			}
			if got.Unknown != "" {
				testkit.Wording(t, "reason", got.Unknown+"\n"+got.Remedy)
			}
		})
	}
}

// TestNoCounters: energy is not known, and never 0, on a host without counters, and where
// only another user may read them.
func TestNoCounters(t *testing.T) {
	if got := Start(t.TempDir()).Stop(); got.Unknown == "" || got.Remedy != remedyNone {
		t.Errorf("no counters: %+v", got)
	}
	dir := t.TempDir()
	tree(t, dir, nil)
	if err := os.Chmod(filepath.Join(dir, "intel-rapl:1", "energy_uj"), 0); err != nil {
		t.Fatal(err)
	}
	want := remedyDenied
	if os.Geteuid() == 0 { // who may read files of any mode
		want = remedyNone
	}
	if got := Start(dir).Stop(); got.Unknown == "" || got.Remedy != want {
		t.Errorf("not readable: %+v", got)
	}
}
