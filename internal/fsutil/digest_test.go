package fsutil

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDigest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The first example of FIPS 180-2, appendix B.
	if sum, err := Digest(file); err != nil || sum != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("got %s, %v", sum, err)
	}
	if _, err := Digest(file + "x"); !os.IsNotExist(err) {
		t.Errorf("of no file: %v", err)
	}
}
