package measure

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/bench/record"
)

// TestUsage reads what the kernel counts. What it does not have is 0.
func TestUsage(t *testing.T) {
	proc := t.TempDir()
	err := os.Mkdir(filepath.Join(proc, "pressure"), 0o755)
	for file, text := range map[string]string{
		"stat":            "cpu  1000 200 300 4000 500 60 40 100 77 0\ncpu0 1 2 3\n",
		"pressure/cpu":    "some avg10=1.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
		"pressure/memory": "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(proc, file), []byte(text), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	u := usageOf(proc)
	if u.busy != 16 || u.steal != 1 || u.all != 62 || u.waited != 2500*time.Millisecond || u.reclaimed != 0 {
		t.Errorf("%+v", u)
	}
	if u := usageOf(t.TempDir()); u != (usage{}) {
		t.Errorf("nothing is known, and got %+v", u)
	}
	now := usageNow()
	if now.all <= 0 || now.busy <= 0 || now.bee <= 0 || now.at.IsZero() {
		t.Errorf("on this machine: %+v", now)
	}
}

// TestDuring: what other processes did during a measurement is what remains of all.
func TestDuring(t *testing.T) {
	begin := time.Now()
	before := usage{all: 100, busy: 50, at: begin}
	for name, c := range map[string]struct {
		after usage
		took  time.Duration
		guest bool
		want  float64
	}{
		"another process":            {usage{all: 120, busy: 66}, 5 * time.Second, false, 1},
		"nobody else":                {usage{all: 120, busy: 56}, 5 * time.Second, false, 0},
		"bee itself":                 {usage{all: 120, busy: 66, bee: 10 * time.Second}, 5 * time.Second, false, 0},
		"what bee has awaited":       {usage{all: 120, busy: 66, awaited: 15 * time.Second}, 5 * time.Second, false, 0},
		"in a guest":                 {usage{all: 120, busy: 66}, 5 * time.Second, true, 0},
		"the time is not known":      {usage{all: 120, busy: 66}, 0, false, 0},
		"the kernel reports nothing": {usage{}, 5 * time.Second, false, 0},
	} {
		c.after.at = begin.Add(10 * time.Second)
		var row record.Row
		if during(&row, before, c.after, c.took, c.guest); math.Abs(row.OthersDuring-c.want) > 1e-9 {
			t.Errorf("%s: %v processors, expected %v", name, row.OthersDuring, c.want)
		}
	}
	var row record.Row
	during(&row, before, usage{all: 120, steal: 2, waited: 5 * time.Second, reclaimed: time.Second, at: begin.Add(10 * time.Second)}, 0, false)
	if row.Steal != 0.1 || row.Waited != 0.5 || row.Reclaimed != 0.1 {
		t.Errorf("%+v", row)
	}
}
