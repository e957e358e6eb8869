package pid1

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestADirectoryThatMayNotBeEnteredIsNamed: the kernel's error would be taken for the
// program's. Images have such a directory where the WORKDIR is their USER's home.
func TestADirectoryThatMayNotBeEnteredIsNamed(t *testing.T) {
	testkit.RequireUser(t) // root may enter all
	dir := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(dir, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{processes: map[int]chan core.Exit{}}
	_, _, _, err := s.start(&request{Args: []string{"/bin/sh", "-c", "true"}, Dir: dir}, &reader{})
	if err == nil || codeOf(err) != 126 || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "/bin/sh") {
		t.Errorf("got %v", err)
	}
}
