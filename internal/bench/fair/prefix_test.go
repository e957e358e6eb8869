package fair

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestProgramsOfTheHost have their own paths, but those of the job's places.
func TestProgramsOfTheHost(t *testing.T) {
	o := origin{Tree: "/", Binary: "/bee", Places: map[string]string{"/work": "/run/volume"}}
	for path, want := range map[string]string{"/usr/bin/hpcc": "/usr/bin/hpcc", "/run/volume/solver": "/work/solver"} {
		if got, foreign := o.inside(path); got != want || foreign {
			t.Errorf("%s is %s, foreign: %v; expected %s", path, got, foreign, want)
		}
	}
}

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

// TestFinder finds a text that several writes have together.
func TestFinder(t *testing.T) {
	for _, tc := range []struct {
		parts []string
		want  bool
	}{
		{[]string{"x/proc/self/exey"}, true},
		{[]string{"/proc/se", "", "l", "f/exe"}, true},
		{[]string{"/proc/self", "-/exe"}, false},
		{nil, false},
	} {
		f := finder{text: []byte(ownExecutable)}
		for _, part := range tc.parts {
			if n, err := f.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if f.found != tc.want {
			t.Errorf("%q: %v", tc.parts, f.found)
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
	if err := core.WriteProgram(filepath.Join(tree, "solver"), raw, 0o755); err != nil {
		t.Fatal(err)
	}
	mark, err := json.Marshal(origin{Tree: tree, Binary: "/no"})
	if err != nil {
		t.Fatal(err)
	}
	loader, err := os.ReadFile(interpreterOf(t, sleep))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"ld.so": loader, "curious": append(raw, "\x00/proc/self/exe"...), "modest": raw} {
		if err := core.WriteProgram(filepath.Join(tree, name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(tree, name) }
	for _, args := range [][]string{
		{in("solver"), "60"},
		{sleep, "60"},
		{in("ld.so"), "--library-path", "/none", in("curious"), "60"},
		{in("ld.so"), "--library-path", "/none", in("modest"), "60"},
	} {
		c := exec.Command(args[0], args[1:]...)
		c.Env = []string{"BEE_RUN_ID=8", "BEE_PREFIX=" + string(mark)}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() }) //nolint:errcheck // it is killed
		maps := fmt.Sprintf("/proc/%d/maps", c.Process.Pid)
		testkit.Eventually(t, 10*time.Second, func() error {
			if len(args) > 2 && !strings.Contains(head(maps), args[3]) {
				return errors.New("the loader has not mapped the program")
			}
			return nil
		})
	}
	w := Start(t.Context(), Sought{Variable: "BEE_RUN_ID", Value: "8", Tools: "/.bee", Prefix: "BEE_PREFIX"})
	lookTwice(t, w)
	found := w.Stop()
	if found.Programs["/solver"] == "" {
		t.Errorf("the image's program is not in %v", found.Programs)
	}
	if !slices.Contains(found.Foreign, sleep) {
		t.Errorf("the host's program is not in %v", found.Foreign)
	}
	if !slices.Equal(found.Misled, []string{"/curious"}) {
		t.Errorf("the programs that find the loader in their place are %v", found.Misled)
	}
}

// interpreterOf is the loader that a program names (elf(5)).
func interpreterOf(t *testing.T, program string) string {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			raw := make([]byte, p.Filesz)
			if _, err := p.ReadAt(raw, 0); err != nil {
				t.Fatal(err)
			}
			return strings.TrimRight(string(raw), "\x00")
		}
	}
	t.Skip("no loader starts programs here") // the program is static
	return ""
}
