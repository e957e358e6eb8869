package fair

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestOrigin: files of a process without a container are known by their paths in one.
func TestOrigin(t *testing.T) {
	o := origin{Tree: "/cache/tree", Binary: "/bee", Places: map[string]string{"/work": "/scratch/volume"}}
	for path, want := range map[string]string{"/cache/tree/usr/bin/x": "/usr/bin/x", "/scratch/volume/x": "/work/x", "/usr/bin/x": "", "/cache/trees/x": ""} {
		if got, foreign := o.inside(path); got != want || foreign != (want == "") {
			t.Errorf("%s is %q, foreign %v; expected %q", path, got, foreign, want)
		}
	}
	for cmdline, want := range map[string]string{
		"/cache/tree/ld.so\x00--inhibit-cache\x00--library-path\x00/l\x00--argv0\x00x\x00/cache/tree/usr/bin/x\x00-v\x00": "/usr/bin/x",
		"/cache/tree/usr/bin/x\x00-v\x00": "/ld.so", "x\x00": "/ld.so",
	} {
		if got := o.program("/cache/tree/ld.so", cmdline); got != want {
			t.Errorf("%q is %q, expected %q", cmdline, got, want)
		}
	}
}

// TestForeign: a program of the host in the place of the image's is found.
func TestForeign(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err == nil {
		sleep, err = filepath.EvalSymlinks(sleep)
	}
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	raw, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "solver"), raw, 0o755); err != nil {
		t.Fatal(err)
	}
	mark, err := json.Marshal(origin{Tree: tree, Binary: "/no"})
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{filepath.Join(tree, "solver"), sleep} {
		c := exec.Command(program, "60")
		c.Env = []string{"BEE_RUN_ID=8", "BEE_PREFIX=" + string(mark)}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() }) //nolint:errcheck // it is killed
	}
	w := Start(t.Context(), Sought{Variable: "BEE_RUN_ID", Value: "8", Tools: "/.bee", Prefix: "BEE_PREFIX"})
	for end := time.Now().Add(10 * time.Second); w.looks.Load() < 2 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	found := w.Stop()
	if found.Programs["/solver"] == "" {
		t.Errorf("the image's program is not in %v", found.Programs)
	}
	if !slices.Contains(found.Foreign, sleep) {
		t.Errorf("the host's program is not in %v", found.Foreign)
	}
}
