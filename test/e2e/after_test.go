package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestAfter: a run gets the files that the run before it has made, and begins when its
// supervisor was killed, too.
func TestAfter(t *testing.T) {
	b := testkit.NewBee(t)
	image := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})
	b.File("mesh.yaml", "image: "+image+"\nrun: sleep 1000\n")
	b.File("model.yaml", "image: "+image+"\nafter: [{run: mesh, on: failure}, data]\ninputs: [{from: ./results/out, to: /work}]\nrun: cat out\n")
	b.File("data.yaml", "image: "+image+"\nrun: echo 42 > out\noutputs: [{from: out, to: ./results}]\n")
	b.Must("run", "-d", "-q", "mesh.yaml")
	data := strings.TrimSpace(b.Must("run", "-d", "-q", "data.yaml"))
	model := strings.TrimSpace(b.Must("run", "-d", "-q", "model.yaml"))
	b.Await(data, time.Minute)
	if _, err := os.Stat(filepath.Join(b.Work, "results", "out")); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		var v struct{ State, Why string }
		b.JSON(&v, "show", "--json", model)
		if v.State != "queued" || !strings.Contains(v.Why, "after the failure of run") {
			return b.Explained(model, "it does not show what it waits for: "+v.State+", "+v.Why)
		}
		return nil
	})
	if r := b.Try("rm", data); r.Code == 0 || !strings.Contains(r.Stderr, model) {
		t.Errorf("a run that another one waits for is removed: %+v", r)
	}
	for _, pid := range b.Controllers() {
		testkit.Kill(pid)
	}
	b.Must("stop", "mesh")
	b.Must("supervise") // starts another one
	if r := b.Try("wait", model); r.Code != 0 {
		t.Fatal(b.Explained(model, "it does not begin"))
	}
	if out := b.Must("logs", model); out != "42\n" {
		t.Errorf("got %q", out)
	}
	b.Must("rm", data)
}
