package core

import (
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// TestWriteProgram: programs are written and executed while others are started.
func TestWriteProgram(t *testing.T) {
	program := append([]byte("#!/bin/sh\nexit 0\n#"), make([]byte, 1<<20)...)
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			name := filepath.Join(dir, string(rune('a'+i)))
			for range 25 {
				if err := WriteProgram(name, program, 0o700); err != nil {
					t.Error(err)
					return
				}
				if out, err := exec.Command(name).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
					return
				}
			}
		})
	}
	all.Wait()
}
