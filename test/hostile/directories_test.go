package hostile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// stranger is a user of the host who was there first.
const stranger = 54321

// first makes a directory of a stranger's, in which everybody may write, in one like /tmp.
func first(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "scratch", "mine")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(filepath.Dir(dir), 0o777|os.ModeSticky), os.Chmod(dir, 0o777), os.Chown(dir, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// refused is a site that doctor does not call fit for use, and on which nothing runs.
func refused(t *testing.T, b *testkit.Bee, dir string) {
	t.Helper()
	var d struct {
		Findings []struct {
			Area, Remedy string
			OK           bool
		}
	}
	b.JSON(&d, "doctor", "--json")
	for _, f := range d.Findings {
		if f.Area == "site" && (f.OK || f.Remedy == "") {
			t.Errorf("doctor: %+v", f)
		}
	}
	job := b.File("job.yaml", "image: docker-archive:"+testkit.Busybox(t, v1.Config{})+"\nrun: echo it runs\n")
	if r := b.Try("run", job); r.Code == 0 || strings.Contains(r.Stdout, "it runs") {
		t.Errorf("it ran: %+v", r)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the stranger's directory: %v, %v", left, err)
	}
}

// TestAScratchThatAnotherUserMadeFirst is not used: its owner could replace whatever is in
// it, the program included.
func TestAScratchThatAnotherUserMadeFirst(t *testing.T) {
	testkit.RequireRoot(t)
	t.Parallel()
	t.Run("local", func(t *testing.T) {
		b, dir := testkit.NewBee(t), first(t)
		b.Env = append(b.Env, "BEE_SITES="+b.File("sites.yaml", "sites: [{name: here, provider: local, scratch: "+dir+"}]\n"))
		refused(t, b, dir)
	})
	t.Run("ssh", func(t *testing.T) {
		b, dir, farm := testkit.NewBee(t), first(t), sshfarm.Start(t, 1)
		b.Env = append(append(b.Env, farm.Env()...), "BEE_SITES="+b.File("sites.yaml", "sites: [{name: there, provider: ssh, hosts: [h0], scratch: "+dir+"}]\n"))
		refused(t, b, dir)
	})
}

// TestDirectoriesOfBeesOwnThatAnotherUserMadeFirst are not used either.
func TestDirectoriesOfBeesOwnThatAnotherUserMadeFirst(t *testing.T) {
	testkit.RequireRoot(t)
	t.Parallel()
	for _, name := range []string{"BEE_STATE", "BEE_CACHE", "BEE_SCRATCH"} {
		t.Run(name, func(t *testing.T) {
			b, dir := testkit.NewBee(t), first(t)
			b.Env = append(b.Env, name+"="+filepath.Join(dir, "bee"))
			job := b.File("job.yaml", "image: docker-archive:"+testkit.Busybox(t, v1.Config{})+"\nrun: echo it runs\n")
			if r := b.Try("run", job); r.Code == 0 || strings.Contains(r.Stdout, "it runs") {
				t.Errorf("it ran: %+v", r)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left in the stranger's directory: %v, %v", left, err)
			}
		})
	}
}
