package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestIfNew: a job starts once for each image and each text of its Beefile that succeeded,
// and never beside a run of it.
func TestIfNew(t *testing.T) {
	b := testkit.NewBee(t)
	archive := filepath.Join(b.Work, "image.tar")
	image := func(version string) {
		raw, err := os.ReadFile(testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin", "VERSION=" + version}}))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(archive, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	job := func(run string) string {
		return b.File("job.yaml", "name: nightly\nimage: docker-archive:image.tar\nrun: '"+run+"'\n")
	}
	runs := func() int { return len(strings.Fields(b.Must("ps", "-aq"))) }
	try := func(what, want string, code int) {
		t.Helper()
		before := runs()
		r := b.Try("run", "--if-new", "job.yaml")
		if r.Code != code || r.Stdout != want || (want == "") != (runs() == before) {
			t.Errorf("%s: %+v, want %q and code %d", what, r, want, code)
		}
	}
	const echo = "echo $VERSION"
	image("1")
	job(echo)
	try("the first time", "1\n", 0)
	try("nothing is new", "", 0)
	image("2")
	try("a new image", "2\n", 0)
	try("the same image", "", 0)
	job(echo + "; exit 7")
	try("a new Beefile", "2\n", 7)
	try("after a failure", "2\n", 7)
	job(echo)
	try("the Beefile of the last success", "", 0)
	job("sleep 1000")
	id := strings.TrimSpace(b.Must("run", "--if-new", "-q", "-d", "job.yaml"))
	image("3")
	job(echo)
	try("while a run is not over", "", 0)
	var v struct{ ID string }
	b.JSON(&v, "run", "--if-new", "-q", "--json", "job.yaml")
	if v.ID != id {
		t.Errorf("the run that is not over is %q, not %q", v.ID, id)
	}
	b.Must("stop", id)
	try("after it was stopped", "3\n", 0)
	if r := b.Fail("run", "--if-new", "docker-archive:image.tar", "true"); r.Kind != "invalid" {
		t.Errorf("without a Beefile: %+v", r)
	}
}

// TestIfNewOfSeveralJobs: all jobs of a file start, or none. One that never begins counts for nothing,
// and outputs that are relative are no change.
func TestIfNewOfSeveralJobs(t *testing.T) {
	t.Parallel()
	b := testkit.NewBee(t)
	image := func(version string) {
		raw, err := os.ReadFile(testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin", "VERSION=" + version}}))
		if err != nil {
			t.Fatal(err)
		}
		b.File(version+".tar", string(raw))
		if err := os.Rename(filepath.Join(b.Work, version+".tar"), filepath.Join(b.Work, "image.tar")); err != nil {
			t.Fatal(err)
		}
	}
	jobs := func(plot string) {
		b.File("jobs.yaml", `name: mesh
image: docker-archive:image.tar
run: echo mesh $VERSION > mesh
outputs: [{from: mesh, to: ./results}]
---
name: plot
image: docker-archive:image.tar
after: [mesh]
inputs: [{from: ./results/mesh, to: /work}]
run: `+plot+`
---
name: mourn
image: docker-archive:image.tar
after: [{run: mesh, on: failure}]
run: echo it failed
`)
	}
	try := func(what, want string) {
		t.Helper()
		before := len(jobsOfAll(b))
		r := b.Try("run", "--if-new", "jobs.yaml")
		begun := len(jobsOfAll(b)) - before
		if r.Code != 0 || r.Stdout != want || want == "" && begun != 0 || want != "" && begun != 3 {
			t.Errorf("%s: %d runs, %+v, want %q", what, begun, r, want)
		}
	}
	const show = "cat mesh"
	image("1")
	jobs(show)
	try("the first time", "plot  | mesh 1\n")
	try("nothing is new", "")
	image("2")
	try("a new image", "plot  | mesh 2\n")
	jobs("cat mesh; echo more")
	try("a new text of one job", "plot  | mesh 2\nplot  | more\n")
	jobs("sleep 1000")
	ids := strings.Fields(b.Must("run", "--if-new", "-q", "-d", "jobs.yaml"))
	jobs(show)
	try("while a run is not over", "")
	var views []struct{ ID string }
	if b.JSON(&views, "run", "--if-new", "-q", "--json", "jobs.yaml"); len(views) != 3 || views[0].ID != ids[0] {
		t.Errorf("the runs that are not over are %+v, not %q", views, ids)
	}
	b.Must(append([]string{"stop"}, ids...)...)
}

// jobsOfAll returns the ids of all runs.
func jobsOfAll(b *testkit.Bee) []string { return strings.Fields(b.Must("ps", "-aq")) }
