package spec

import (
	"os"
	"path/filepath"
	"testing"
)

// TestStrangersOfCases: who may write to the file of cases may have written the job, as
// values are part of paths on this machine.
func TestStrangersOfCases(t *testing.T) {
	dir := t.TempDir()
	beefile, cases := filepath.Join(dir, "job.yaml"), filepath.Join(dir, "cases.csv")
	for file, text := range map[string]string{beefile: "image: debian:12\narray: {cases: {file: cases.csv}}\nrun: echo\n", cases: "to\na\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []os.FileMode{0o600, 0o666} {
		if err := os.Chmod(cases, mode); err != nil {
			t.Fatal(err)
		}
		d, err := ReadDraft(beefile)
		if err != nil {
			t.Fatal(err)
		}
		if why, err := d.Stranger(); err != nil || (why != "") != (mode == 0o666) {
			t.Errorf("of mode %#o: %q, %v", mode, why, err)
		}
	}
}
