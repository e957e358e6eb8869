package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/imagecmd"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/image/build"
	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestCommandsForGuestImagesLeaveOthersAlone, and name the ones that do not.
func TestCommandsForGuestImagesLeaveOthersAlone(t *testing.T) {
	bee := imageCommand(t)
	job, guest := "docker-archive:"+testkit.Busybox(t, v1.Config{}), "docker-archive:"+testkit.Busybox(t, v1.Config{Env: []string{build.Mark + "=1"}})
	refused := func(args ...string) {
		t.Helper()
		root := newApp(&bytes.Buffer{}, &bytes.Buffer{}).newRoot()
		root.SetArgs(append([]string{"vm", "image"}, args...))
		err := root.ExecuteContext(t.Context())
		if !core.IsKind(err, core.Invalid) || !strings.Contains(core.Remedy(err), "`bee image "+args[0]+"`") {
			t.Errorf("%s: %v: %s", args, err, core.Remedy(err))
		}
	}
	refused("pull", job)
	if got := bee("image", "ls"); strings.Contains(got, job) {
		t.Errorf("it came: %s", got)
	}
	bee("image", "pull", job)
	bee("vm", "image", "pull", guest)
	refused("pull", job)
	refused("show", job)
	refused("push", job, "127.0.0.1:1/x")
	refused("rm", guest, job)
	for command, want := range map[string]bool{"image": true, "vm image": false} {
		words := bee(append([]string{"__complete"}, append(strings.Fields(command), "rm", "")...)...)
		if strings.Contains(words, job+"\n") != want || !strings.Contains(words, guest+"\n") {
			t.Errorf("%s completes %s", command, words)
		}
	}
	bee("vm", "image", "rm", guest)
	bee("image", "rm", job)
}

// TestImportTellsNames of all that came.
func TestImportTellsNames(t *testing.T) {
	archive, bee := testkit.Busybox(t, v1.Config{}), imageCommand(t)
	var views []imagecmd.View
	if err := json.Unmarshal([]byte(bee("image", "import", "--json", archive)), &views); err != nil || len(views) != 1 {
		t.Fatalf("%+v, %v", views, err)
	}
	var printed bytes.Buffer
	root := newApp(&bytes.Buffer{}, &printed).newRoot()
	root.SetArgs([]string{"image", "import", archive})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range views[0].Refs {
		if reported := strings.Contains(printed.String(), "bee: "+name+" is "+imagecmd.ShortID(views[0].ID)+"\n"); reported == strings.HasPrefix(name, "docker-archive:") {
			t.Errorf("of %s it says %q", name, printed.String())
		}
	}
	if len(views[0].Refs) < 2 {
		t.Errorf("it is called %q", views[0].Refs)
	}
}

// TestNamesOfOnesOwn find what was built, and are looked at before it is.
func TestNamesOfOnesOwn(t *testing.T) {
	archive, bee := testkit.Busybox(t, v1.Config{}), imageCommand(t)
	var out, printed bytes.Buffer
	a := newApp(&out, &printed)
	a.CacheDir = os.Getenv("BEE_CACHE")
	got := 0
	bring := func(name string) error {
		return imagecmd.New(a.Workspace).Bring(false, imagecmd.Naming{Name: name, Platform: "linux/" + runtime.GOARCH}, func(s *image.Store, _ func(string, int64, int64)) (core.Image, error) {
			got++
			return s.Pull(t.Context(), "docker-archive:"+archive, image.PullOptions{})
		})
	}
	for _, bad := range []string{"oci:mine", "sha256:abcd", "Mine", "mine@sha256:" + strings.Repeat("0", 64)} {
		if err := bring(bad); !core.IsKind(err, core.Invalid) || !strings.HasPrefix(err.Error(), "--tag: ") || got > 0 {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := bring("mine:1"); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(out.String())
	if shown := bee("image", "show", "mine:1"); !strings.Contains(shown, id) || printed.String() != "bee: mine:1 is "+imagecmd.ShortID(id)+"\n" {
		t.Errorf("it said %q, %q and shows %s", out.String(), printed.String(), shown)
	}
	for _, command := range [][]string{{"image", "build", "--tag", "Mine", os.DevNull}, {"vm", "build", "--tag", "Mine"}, {"vm", "image", "build", "--tag", "Mine"}} {
		root := newApp(&out, &printed).newRoot()
		root.SetArgs(command)
		if err := root.ExecuteContext(t.Context()); !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// TestImagesAreSavedWhole to a file, or not at all, and to no other place than was named.
func TestImagesAreSavedWhole(t *testing.T) {
	bee := imageCommand(t)
	bee("image", "pull", "docker-archive:"+testkit.Busybox(t, v1.Config{Labels: map[string]string{"a": "b"}}))
	id := strings.Fields(bee("image", "ls", "--json"))
	var list []imagecmd.View
	if err := json.Unmarshal([]byte(strings.Join(id, " ")), &list); err != nil || len(list) != 1 {
		t.Fatalf("got %v, %v", list, err)
	}
	dir := t.TempDir()
	for _, format := range []string{"docker-archive", "oci-archive"} {
		file := dir + "/" + format
		bee("image", "save", list[0].ID, "--format", format, "-o", file)
		if came := bee("image", "import", file); !strings.HasPrefix(came, "sha256:") {
			t.Errorf("%s: got %q", format, came)
		}
	}
	for _, args := range [][]string{{list[0].ID}, {list[0].ID, "-o", dir + "/none/x"}, {list[0].ID, "-o", dir + "/x", "--format", "zip"}, {"no-such:1", "-o", dir + "/x"}} {
		root := newApp(&bytes.Buffer{}, &bytes.Buffer{}).newRoot()
		root.SetArgs(append([]string{"image", "save"}, args...))
		if err := root.ExecuteContext(t.Context()); err == nil || core.Remedy(err) == "" {
			t.Errorf("%s: %v (%s)", args, err, core.Remedy(err))
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}
