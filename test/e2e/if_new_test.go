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
