package cloudcmd

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/vm/disk"
)

// TestImages lists the images that are here with their files, and removes some by name.
func TestImages(t *testing.T) {
	var out bytes.Buffer
	a := New(workspace.New(&out, &out, "test"))
	a.StateDir, a.CacheDir = t.TempDir(), t.TempDir()
	command := func(args ...string) error {
		t.Helper()
		out.Reset()
		c := a.imageCommand()
		c.SetArgs(args)
		c.SetOut(&out)
		c.SetErr(&out)
		c.SilenceUsage, c.SilenceErrors = true, true
		return c.ExecuteContext(t.Context())
	}
	if err := command("ls", "--json"); err != nil || strings.TrimSpace(out.String()) != "[]" {
		t.Errorf("with none there: %v, %s", err, out.String())
	}
	for _, name := range []string{"one", "two"} {
		if _, err := disk.Open(a.CacheDir).Add(t.Context(), disk.Disk{Name: name, Arch: "amd64"}, func(f *os.File) error { _, err := f.WriteString(name); return err }); err != nil {
			t.Fatal(err)
		}
	}
	var list []diskView
	if err := command("ls", "--json"); err != nil || json.Unmarshal(out.Bytes(), &list) != nil || len(list) != 2 {
		t.Fatalf("%v, %s", err, out.String())
	}
	if raw, err := os.ReadFile(list[1].File); err != nil || string(raw) != list[1].Name {
		t.Errorf("its file has %q, %v", raw, err)
	}
	if err := command("ls"); err != nil || !strings.Contains(out.String(), list[0].Short()) {
		t.Errorf("%v, %s", err, out.String())
	}
	if err := command("rm", "none", "one"); !core.IsKind(err, core.NotFound) {
		t.Errorf("one that is not there: %v", err)
	}
	if err := command("ls", "--json"); err != nil || strings.Contains(out.String(), `"one"`) || !strings.Contains(out.String(), `"two"`) {
		t.Errorf("%v, %s", err, out.String())
	}
	if err := command("build", "No Name"); !core.IsKind(err, core.Invalid) {
		t.Errorf("a name with a blank: %v", err)
	}
}
