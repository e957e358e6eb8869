package guest

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAnAccountOfTheUsersNameIsDropped keeps those of names that begin alike.
func TestAnAccountOfTheUsersNameIsDropped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwd")
	if err := os.WriteFile(file, []byte("root:x:0:0::/root:/bin/sh\nann:x:5000:5000::/home/ann:/bin/sh\nanna:x:5001:5001:ann::\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := dropEntry(file, "ann"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "root:x:0:0::/root:/bin/sh\nanna:x:5001:5001:ann::\n" {
		t.Errorf("it became %q, %v", got, err)
	}
}

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
