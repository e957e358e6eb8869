package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/ec2server"
	machinedisk "github.com/bee-hpc/bee/internal/vm/disk"
)

// ownImage has a bee build an image for rented machines, in a cache of its own. Its disk has little.
func ownImage(t *testing.T, b *testkit.Bee, name, content string) {
	t.Helper()
	cache := b.Dir + "/images"
	b.Env = append(b.Env, "BEE_CACHE="+cache)
	_, err := machinedisk.Open(cache).Add(t.Context(), machinedisk.Disk{Name: name, Arch: "amd64", Guest: "none", Made: time.Now()}, func(f *os.File) error {
		_, err := f.WriteAt([]byte(content), 3*ec2server.BlockSize)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// pushedImage is an image at a site, as bee prints it.
type pushedImage struct {
	Site, Name, ID, Source string
	Whole, Own             bool
	Was                    bool `json:"was_there"`
}

// TestJobOnAnOwnImage: an image is pushed once, listed with what is rented, and machines are rented of it by its name. It stays
// until its user removes it.
func TestJobOnAnOwnImage(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "run: echo it runs")
	s := rented(t, b)
	b.File("rented.yaml", strings.NewReplacer("image: "+ec2server.Image, "image: bee:hpc").Replace(b.Read("rented.yaml")))
	env := b.Env
	ownImage(t, b, "hpc", "first")
	if f := b.Fail("run", "-q", job); f.Code != console.ExitUnsupported || !strings.Contains(f.Remedy, "bee cloud image push hpc --site ec2") {
		t.Errorf("before it is pushed: %+v", f)
	}
	if f := b.Fail("cloud", "image", "push", "hpc"); f.Code != console.ExitInvalid || !strings.Contains(f.Remedy, "--site") {
		t.Errorf("to no site: %+v", f)
	}
	if f := b.Fail("cloud", "image", "push", "hpcs", "--site", "ec2"); f.Code != console.ExitNotFound {
		t.Errorf("one that is not there: %+v", f)
	}
	for _, was := range []bool{false, true} {
		var list []pushedImage
		if b.JSON(&list, "cloud", "image", "push", "hpc", "--site", "ec2", "--json"); len(list) != 1 || !list[0].Whole || list[0].Was != was {
			t.Errorf("pushed is %+v", list)
		}
	}
	if got, boot := s.Kept().Disk("bee-hpc-", 3*ec2server.BlockSize+5); string(got[3*ec2server.BlockSize:]) != "first" || boot != "uefi" || s.Kept().Blocks("bee-hpc-") != 1 {
		t.Errorf("machines boot a disk with %q, by %s", got[3*ec2server.BlockSize:], boot)
	}
	if images := listRented(t, b)["image"]; len(images) != 1 || images[0].EndedBy != "user" {
		t.Errorf("listed are %+v", images)
	}
	pushing := b.Env
	b.Env = append(slices.Clone(pushing), "PATH="+t.TempDir()) // a trial of podman would leave files of other users in HOME
	if r := b.Try("doctor"); !strings.Contains(r.Stdout, "rents") || strings.Contains(r.Stdout, "another installation") {
		t.Errorf("the doctor looks at the image of another installation:\n%s", r.Stdout)
	}
	b.Env = pushing
	if out := b.Must("cloud", "rm", "--yes", "--force") + b.Must("sweep", "--force"); out != "" || len(s.Kept().Images()) != 2 {
		t.Errorf("%q, and there are %q", out, s.Kept().Images())
	}
	b.Env = env // with the cache of all tests
	if r := b.Try("run", "-q", job); r.Code != 0 || r.Stdout != "it runs\n" {
		t.Errorf("%+v\n%s", r, s.Console())
	}
	wantNothingRented(t, s)
	if f := b.Fail("cloud", "image", "rm", "hpcs", "--site", "ec2"); f.Code != console.ExitNotFound {
		t.Errorf("one that was not pushed: %+v", f)
	}
	b.Must("cloud", "image", "rm", "hpc", "--site", "ec2")
	if left := s.Kept().Images(); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
	wantNoSecret(t, b, s, ec2server.Secret)
}

// TestKilledWhileItPushes kills bee at each call of an upload, before the cloud has carried it out and after. What is left is no
// image, is listed, and goes by `bee cloud rm`, by a sweep and by the next push, which is whole.
func TestKilledWhileItPushes(t *testing.T) {
	t.Parallel()
	b := testkit.NewBee(t)
	s := rented(t, b)
	ownImage(t, b, "hpc", "content")
	ways := [][]string{{"cloud", "rm", "--yes"}, {"sweep"}, {"cloud", "image", "push", "hpc", "--site", "ec2"}, {"cloud", "image", "rm", "hpc", "--site", "ec2"}}
	for n, action := range []string{"StartSnapshot", "PutSnapshotBlock", "CompleteSnapshot", "RegisterImage"} {
		for _, done := range []bool{false, true} {
			s.Fail(action, "Hung", ec2server.Hung, done)
			before := s.Calls(action)
			c := b.Command("cloud", "image", "push", "hpc", "--site", "ec2")
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, time.Minute, func() error {
				if s.Calls(action) == before {
					return fmt.Errorf("%s is not called", action)
				}
				return nil
			})
			c.Process.Kill()
			if err := c.Wait(); err == nil {
				t.Fatal("it has ended before it was killed")
			}
			there, whole := s.Kept().Images(), action == "RegisterImage" && done
			var images []pushedImage
			b.JSON(&images, "cloud", "image", "ls", "--site", "ec2", "--json")
			if len(images) != min(len(there), 1) || len(images) == 1 && images[0].Whole != whole {
				t.Errorf("%s, %v: listed are %+v of %q", action, done, images, there)
			}
			if listed := listRented(t, b)["image"]; len(listed) != len(images) || len(listed) == 1 && (listed[0].EndedBy == "user") != whole {
				t.Errorf("%s, %v: listed are %+v", action, done, listed)
			}
			way := ways[(2*n+map[bool]int{true: 1}[done])%len(ways)]
			if len(there) == 0 || whole { // there is nothing to remove
				way = ways[2]
			}
			b.Must(way...)
			want := 0
			if len(way) > 2 && way[2] == "push" {
				want = 2 // the image, and its snapshot
			}
			if left := s.Kept().Images(); len(left) != want {
				t.Errorf("%s, %v: after %q there are %q", action, done, way, left)
			}
			if want > 0 {
				b.Must("cloud", "image", "rm", "hpc", "--site", "ec2")
			}
			if left := s.Kept().Images(); len(left) > 0 {
				t.Errorf("%s, %v: left are %q", action, done, left)
			}
		}
	}
}
