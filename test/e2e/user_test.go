package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestAnImagesUser: processes are whom the image names, inside; outside, and in what
// they write, they are the caller.
func TestAnImagesUser(t *testing.T) {
	testkit.AsRootToo(t)
	b := testkit.NewBee(t)
	app := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}, User: "app"})
	stranger := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}, User: "stranger"})
	lines := "\nworkdir: /work\nrun: 'id -un 2>/dev/null || id -u; echo $HOME; cat ~/own; touch result'\noutputs: [{from: /work/result, to: ./results}]\n"
	b.File("job.yaml", "image: docker-archive:"+app+lines)
	r := b.Try("run", "-q", "job.yaml")
	if r.Code != 0 || r.Stdout != "app\n/home/app\napp's\n" {
		t.Errorf("as the image's USER: %+v", r)
	}
	info, err := os.Stat(filepath.Join(b.Work, "results/result"))
	if err != nil || int(sysOf(info).Uid) != os.Getuid() {
		t.Errorf("the result does not belong to the caller: %v", err)
	}
	b.File("caller.yaml", "user: caller\nimage: docker-archive:"+app+strings.Replace(lines, "id -un 2>/dev/null || id -u", "id -u", 1))
	home := "/work"
	if os.Getuid() == 0 {
		home = "/root"
	}
	if r := b.Try("run", "-q", "caller.yaml"); !strings.HasPrefix(r.Stdout, itoa(os.Getuid())+"\n"+home+"\n") {
		t.Errorf("as the caller: %+v", r)
	}
	b.File("stranger.yaml", "image: docker-archive:"+stranger+lines)
	if r := b.Try("run", "-q", "stranger.yaml"); r.Code < 200 || !strings.Contains(r.Stderr, "stranger") || !strings.Contains(r.Stderr, "user: caller") {
		t.Errorf("a USER that the image does not know: %+v", r)
	}
}

// TestByDocker: a daemon has no ids but the host's, so the image's USER is left out.
func TestByDocker(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.Docker(t)
	b := testkit.NewBee(t)
	app := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}, User: "app"})
	b.File("job.yaml", "runtime: docker\nimage: docker-archive:"+app+"\nworkdir: /work\nrun: 'id -u; touch result'\noutputs: [{from: /work/result, to: ./results}]\n")
	r := b.Try("run", "job.yaml")
	if r.Code != 0 || r.Stdout != itoa(os.Getuid())+"\n" || !strings.Contains(r.Stderr, " USER app ") {
		t.Errorf("by docker: %+v", r)
	}
	info, err := os.Stat(filepath.Join(b.Work, "results/result"))
	if err != nil || int(sysOf(info).Uid) != os.Getuid() {
		t.Errorf("the result does not belong to the caller: %v", err)
	}
	reachInto(t, b, "job.yaml", "runtime: docker", 0)
}
