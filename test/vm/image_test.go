package vm

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestGuestImages brings a guest image to a registry and back, into another
// cache: it is the same image, and counts as a guest image there too.
func TestGuestImages(t *testing.T) {
	testkit.RequireTool(t, "mmdebstrap")
	testkit.Once(t)
	address := testkit.Registry(t, "")
	b := testkit.NewBee(t)
	id := strings.TrimSpace(b.Must("vm", "image", "build"))
	if got := b.Must("vm", "image", "ls"); !strings.Contains(got, id[7:19]) {
		t.Errorf("it is not listed:\n%s", got)
	}
	ref := address + "/guest:1"
	b.Must("vm", "image", "push", id, ref)

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
}
