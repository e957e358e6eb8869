package state

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/measure"
)

// TestSamplesOfARun: a run of an earlier bee has none, and what is none is an error.
func TestSamplesOfARun(t *testing.T) {
	dir := t.TempDir()
	if s, err := ReadSamples(dir); err != nil || len(s.Points) != 0 || s.Summary() != nil {
		t.Errorf("without a file: %+v, %v", s, err)
	}
	var s measure.Samples
	s.Add(1, 7, time.Unix(10, 0), measure.Gather(10, []core.Use{{1.5, 100, 0, 0}}))
	if err := WriteSamples(dir, &s); err != nil {
		t.Fatal(err)
	}
	read, err := ReadSamples(dir)
	if err != nil || len(read.Points) != 1 || read.Points[0].Single[0][core.UseCores] != 1.5 || read.Summary().Cores != 1.5 {
		t.Errorf("%+v, %v", read, err)
	}
	if read.Add(1, 7, time.Unix(10, 0), measure.Used{}) {
		t.Error("an event that is recorded counts again")
	}
	if err := os.WriteFile(filepath.Join(dir, samplesName), []byte(`{"points": [`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSamples(dir); err == nil {
		t.Error("a torn file is read")
	}
}
