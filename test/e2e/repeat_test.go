package e2e

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestRunAgain repeats a run whose Beefile is gone by then, and a run of what was printed
// of it.
func TestRunAgain(t *testing.T) {
	bee := testkit.NewBee(t)
	image := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})
	if out := bee.Must("run", "-q", "--name", "first", "--label", "project=cfd", "-e", "A=1", image, "sh", "-c", "echo got $A"); out != "got 1\n" {
		t.Fatalf("the first run prints %q", out)
	}
	if out := bee.Must("run", "-q", "--again", "first", "--name", "second", "-e", "A=2"); out != "got 2\n" {
		t.Errorf("the same job prints %q", out)
	}
	file := bee.File("again.yaml", bee.Must("show", "--beefile", "first"))
	if out := bee.Must("run", "-q", "--name", "third", file); out != "got 1\n" {
		t.Errorf("its Beefile prints %q", out)
	}
	shown := bee.Must("show", "third")
	for _, want := range []string{"image      docker-archive:", "digest     sha256:", "command    sh -c 'echo got $A'", "labels     project=cfd", "beefile    " + file, "submitted  by "} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is missing in\n%s", want, shown)
		}
	}
}
