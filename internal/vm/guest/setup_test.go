package guest

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTheUserJoinsTheGroupOfDocker keeps everyone else where they are.
func TestTheUserJoinsTheGroupOfDocker(t *testing.T) {
	for before, after := range map[string]string{
		"root:x:0:\ndocker:x:101:\nann:x:1000:\n": "root:x:0:\ndocker:x:101:ann\nann:x:1000:\n",
		"docker:x:101:bob\ndockers:x:7:\n":        "docker:x:101:bob,ann\ndockers:x:7:\n",
		"root:x:0:\n":                             "root:x:0:\n",
	} {
		file := filepath.Join(t.TempDir(), "group")
		if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := joinGroup(file, dockerGroup, "ann"); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != after {
			t.Errorf("%q became %q, %v", before, got, err)
		}
	}
}
