package hostile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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
	doctor := b.Try("doctor", "--json")
	if err := json.Unmarshal([]byte(doctor.Stdout), &d); err != nil || doctor.Code == 0 {
		t.Fatalf("%v: %+v", err, doctor)
	}
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

// TestAnotherUserMadeTheDefaultScratch: a user who makes the directory first in which another
// one's runs begin does not stop these.
func TestAnotherUserMadeTheDefaultScratch(t *testing.T) {
	testkit.RequireRoot(t)
	t.Parallel()
	victim := stranger + 1000 + os.Getpid() // tests of other trees may run beside
	scratch := filepath.Join("/var/tmp", fmt.Sprint("bee-", victim))
	home, err := os.MkdirTemp("/var/tmp", "home-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	if err := os.Mkdir(scratch, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		made, _ := filepath.Glob(scratch + "-*")
		for _, dir := range append(made, scratch) {
			os.RemoveAll(dir) // nobody uses it
		}
	})
	if err := errors.Join(os.Chown(home, victim, victim), os.Chown(scratch, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(testkit.Binary(t), "doctor", "--json")
	c.Dir, c.Env = home, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(victim), Gid: uint32(victim)}}
	out, err := c.Output()
	var d struct {
		Findings []struct {
			Area, Name, Text string
			OK               bool
		}
	}
	if jerr := json.Unmarshal(out, &d); jerr != nil {
		t.Fatalf("doctor: %v, %v: %s", err, jerr, out)
	}
	sites := 0
	for _, f := range d.Findings {
		if f.Area == "site" {
			if sites++; !f.OK {
				t.Errorf("doctor: %+v", f)
			}
		}
	}
	made, err := filepath.Glob(scratch + "-*")
	if err != nil || len(made) != 1 || sites == 0 {
		t.Errorf("%d sites are found, and beside the scratch is %q, %v", sites, made, err)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("left in the stranger's directory: %v, %v", left, err)
	}
}
