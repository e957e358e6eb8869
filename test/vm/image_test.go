package vm

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// mostOfAGuest, in bytes, is what a guest image may have on its way to a host.
const mostOfAGuest = 250_000_000

// layers gives the bytes of an image's layers in a registry.
func layers(t *testing.T, manifest string) (size int64) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, manifest, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var m struct{ Layers []struct{ Size int64 } }
	if err := json.NewDecoder(answer.Body).Decode(&m); err != nil {
		t.Fatalf("%s: %v", answer.Status, err)
	}
	for _, l := range m.Layers {
		size += l.Size
	}
	return size
}

// TestABundleRunsFromAnywhere: it is moved after it was made, and nothing reports it
// where it lies or what there is; it is started by a link, also where there is no other
// library than its own. It boots as far as its firmware.
func TestABundleRunsFromAnywhere(t *testing.T) {
	besideOthers(t)
	testkit.RequireTool(t, "mmdebstrap")
	b := testkit.NewBee(t)
	made := strings.TrimSpace(b.Must("vm", "bundle", filepath.Join(b.Work, "qemu")))
	root := filepath.Join(b.Work, "root")
	moved, link := filepath.Join(root, "a b"), filepath.Join(root, "bin", "linked")
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "bin"), 0o755), os.Rename(filepath.Dir(made), moved),
		os.Symlink(filepath.Join("..", "a b", filepath.Base(made)), link)); err != nil {
		t.Fatal(err)
	}
	starts := func(c *exec.Cmd) {
		t.Helper()
		c.Args = append(c.Args, "-nodefaults", "-no-user-config", "-display", "none", "-accel", "tcg", "-monitor", "stdio")
		c.Dir, c.Stdin = "/", strings.NewReader("info status\nquit\n")
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "VM status: running") {
			t.Errorf("%v: %s", err, out)
		}
	}
	bare := exec.Command(link)
	bare.Env = []string{}
	starts(bare)

	// A host that has another libc, or none.
	busybox, err := os.ReadFile(testkit.RequireTool(t, "busybox"))
	if err == nil {
		err = core.WriteProgram(filepath.Join(root, "bin", "busybox"), busybox, 0o755)
	}
	for _, name := range []string{"sh", "dirname", "readlink"} {
		err = errors.Join(err, os.Symlink("busybox", filepath.Join(root, "bin", name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	starts(exec.Command("unshare", "--map-root-user", testkit.RequireTool(t, "chroot"), root, "/bin/linked"))
}

// TestGuestImages brings a guest image to a registry and back, into another
// cache: it is the same image, and counts as a guest image there too. In `make test-long`
// it is built there, and is the same bit by bit, as in TestDebianBuildIsReproducible of
// internal/image.
func TestGuestImages(t *testing.T) {
	besideOthers(t)
	testkit.RequireTool(t, "mmdebstrap")
	address := testkit.Registry(t, "")
	b := testkit.NewBee(t)
	id := strings.TrimSpace(b.Must("vm", "image", "build"))
	if got := b.Must("vm", "image", "ls"); !strings.Contains(got, id[7:19]) {
		t.Errorf("it is not listed:\n%s", got)
	}
	packages := packagesOf(b, id)
	ref := address + "/guest:1"
	b.Must("vm", "image", "push", id, ref)
	if size := layers(t, "http://"+address+"/v2/guest/manifests/1"); size < 1<<20 || size > mostOfAGuest {
		t.Errorf("compressed it has %d bytes", size)
	}

	b.Env = append(b.Env, "BEE_CACHE="+filepath.Join(b.Dir, "other"))
	if got := b.Must("vm", "image", "ls"); strings.Contains(got, id[7:19]) {
		t.Errorf("the other cache has it already:\n%s", got)
	}
	b.Must("vm", "image", "pull", ref)
	var list []struct {
		ID   string   `json:"id"`
		Refs []string `json:"refs"`
		Size int64    `json:"size_bytes"`
	}
	b.JSON(&list, "vm", "image", "ls", "--json")
	if len(list) != 1 || len(list[0].Refs) != 1 || list[0].Refs[0] != ref {
		t.Fatalf("the other cache lists %+v", list)
	}
	_, hex, _ := strings.Cut(list[0].ID, ":")
	for _, part := range []string{"vmlinux", "root.sqfs", "packages", "modules", "qemu/loader"} {
		files, err := filepath.Glob(filepath.Join(b.Dir, "other", "trees", hex, part))
		if err != nil || len(files) != 1 {
			t.Errorf("it has no %s", part)
		}
	}
	b.Must("vm", "image", "show", ref)
	b.Must("vm", "image", "rm", ref)
	if got := b.Must("vm", "image", "ls", "--json"); strings.TrimSpace(got) != "[]" {
		t.Errorf("after it was removed there is %s", got)
	}
	if !testkit.Everything() {
		return
	}
	// The first may be days old, and the mirror may have other packages since.
	for caches := 0; ; caches++ {
		again := strings.TrimSpace(b.Must("vm", "image", "build"))
		if now := packagesOf(b, again); maps.Equal(now, packages) {
			if again != id {
				t.Errorf("built once more, from the same packages, it is %s, not %s", again, id)
			}
			break
		} else if caches == 3 {
			t.Fatal("no two images in a row were built from the same packages")
		} else {
			id, packages = again, now
		}
		b.Env = append(b.Env, "BEE_CACHE="+filepath.Join(b.Dir, "cache", strconv.Itoa(caches)))
	}
}

// packagesOf gives the version of each package in a guest image.
func packagesOf(b *testkit.Bee, image string) map[string]string {
	var shown struct {
		Packages map[string]string `json:"packages"`
	}
	b.JSON(&shown, "vm", "image", "show", image)
	return shown.Packages
}
