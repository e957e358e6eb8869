package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFiguresAreAdded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures")
	t.Setenv(FiguresVariable, path)
	Figure(t, "%d apples", 3)
	Figure(t, "1 pear")
	got, err := os.ReadFile(path)
	if want := "TestFiguresAreAdded: 3 apples\nTestFiguresAreAdded: 1 pear\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
}
