package head

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestACommandThatWritesWithoutEnd puts its first bytes into the node's log, and never waits.
func TestACommandThatWritesWithoutEnd(t *testing.T) {
	for name, size := range map[string]int{"nothing": 0, "little": 10, "all": 1000, "too much": 1 << 20} {
		path := filepath.Join(t.TempDir(), "log")
		log, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		into, copied, err := bounded(log, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := into.Write(bytes.Repeat([]byte("x"), size)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		into.Close()
		select {
		case <-copied:
		case <-time.After(time.Minute):
			t.Fatalf("%s: it waits", name)
		}
		if raw, err := os.ReadFile(path); err != nil || len(raw) != min(size, 1000) {
			t.Errorf("%s: the log has %d bytes, %v", name, len(raw), err)
		}
	}
}
