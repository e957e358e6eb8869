package prefix

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// tree makes an image of the host's cat, with its loader and libraries behind links that lead
// out of the image unless they are resolved within it.
func tree(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(p string) string { return filepath.Join(root, p) }
	write := func(p string, data []byte, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at(p)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(p), data, mode); err != nil {
			t.Fatal(err)
		}
	}
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(cat)
	if err != nil {
		t.Fatal(err)
	}
	write("/usr/bin/cat", raw, 0o755)
	out, err := exec.Command("ldd", cat).Output()
	if err != nil {
		t.Skip("no ldd here: ", err)
	}
	for _, m := range regexp.MustCompile(`(?m)(?:^\s*|=> )(/\S+)`).FindAllStringSubmatch(string(out), -1) {
		raw, err := os.ReadFile(m[1])
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(m[1])
		if strings.HasPrefix(name, "ld-") { // the program names it by its path
			write("/usr/lib/loader/"+name, raw, 0o755)
			if err := os.MkdirAll(filepath.Dir(at(m[1])), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("/usr/lib/loader/"+name, at(m[1])); err != nil {
				t.Fatal(err)
			}
			continue
		}
		write("/opt/real/"+name, raw, 0o755)
		write("/etc/alternatives/none", nil, 0o644)
		if err := os.Symlink("/opt/real/"+name, at("/etc/alternatives/"+name)); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(at("/usr/lib"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/etc/alternatives/"+name, at("/usr/lib/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	write("/usr/bin/script", []byte("#!/usr/bin/cat\nof the script\n"), 0o755)
	write("/usr/bin/by-env", []byte("#!/usr/bin/env cat\nby env\n"), 0o755)
	write("/usr/bin/notes", []byte("text"), 0o644)
	write("/usr/local/lib/python3.11/dist-packages/x", nil, 0o644)
	write("/usr/lib/python3.11/os.py", nil, 0o644)
	write("/opt/app/tool", raw, 0o755)
	write("/usr/share/data", []byte("data\n"), 0o644)
	write("/usr/bin/orterun", raw, 0o755)
	write("/etc/openmpi/openmpi-mca-params.conf", []byte("pml = ^ucx\n"), 0o644)
	testkit.SharedObject{Soname: "libouter.so", Runpath: "/usr/lib/private:/no/such"}.Write(t, at("/usr/lib/libouter.so"))
	testkit.SharedObject{Soname: "libinner.so", Runpath: "$ORIGIN/deeper"}.Write(t, at("/usr/lib/private/libinner.so"))
	testkit.SharedObject{Soname: "libinmost.so"}.Write(t, at("/usr/lib/private/deeper/libinmost.so"))
	testkit.SharedObject{Soname: "libouter.so"}.Write(t, at("/usr/lib/private/libouter.so"))
	return root
}

func made(t *testing.T) (*Prefix, string, string) {
	t.Helper()
	root, volume := tree(t), t.TempDir()
	p, err := Make(filepath.Join(t.TempDir(), "p r'e"), Input{Tree: root, Binary: "/bee", Env: []string{"PATH=/usr/bin:/bin"}, Places: map[string]string{"/work": volume, "/.bee": "/tools"}})
	if err != nil {
		t.Fatal(err)
	}
	return p, root, volume
}

// TestPrograms runs programs of an image by its own loader, with its own libraries alone.
func TestPrograms(t *testing.T) {
	p, root, _ := made(t)
	run := func(args ...string) string {
		t.Helper()
		args, env, dir, err := p.Command(args, []string{"PATH=/usr/bin:/bin"}, "/")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(args[0], "/") {
			args[0] = filepath.Join(p.dir, "bin", args[0])
		}
		c := exec.Command(args[0], args[1:]...)
		c.Env, c.Dir = env, dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
		return string(out)
	}
	maps := run("cat", "/proc/self/maps")
	for line := range strings.Lines(maps) {
		if f := strings.Fields(line); len(f) > 5 && strings.Contains(f[1], "x") && strings.HasPrefix(f[5], "/") && !strings.HasPrefix(f[5], root+"/") {
			t.Errorf("a file of the host is mapped: %s", line)
		}
	}
	if !strings.Contains(maps, root+"/opt/real/libc.so") {
		t.Errorf("the image's libc is not mapped:\n%s", maps)
	}
	if got := run("/opt/app/tool", "/usr/share/data"); got != "data\n" {
		t.Errorf("a program outside of the PATH, of a file of the image: %q", got)
	}
	if got := run("script"); !strings.Contains(got, "of the script") {
		t.Errorf("a script: %q", got)
	}
	if got := run("/usr/bin/by-env"); !strings.Contains(got, "by env") {
		t.Errorf("a script by env: %q", got)
	}
	for name, in := range map[string]string{"libouter.so": "/usr/lib", "libinner.so": "/usr/lib/private", "libinmost.so": "/usr/lib/private/deeper"} {
		if to, err := os.Readlink(filepath.Join(p.dir, "lib", name)); to != root+in+"/"+name {
			t.Errorf("%s, which a library names by its header, is %q, %v", name, to, err)
		}
	}
	if _, err := os.Stat(filepath.Join(p.dir, "lib/python3.11/os.py")); err != nil {
		t.Errorf("Python would not find its modules: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(p.dir, "bin", "notes")); err == nil {
		t.Error("what is no program has a wrapper")
	}
}

func TestTranslation(t *testing.T) {
	p, root, volume := made(t)
	args, env, dir, err := p.Command(
		[]string{"cat", "/work/in", "--out=/work/out", "/dev/null", "-n", "a=/usr/share/data", "/.bee/run/script"},
		[]string{"PATH=/x", "LD_LIBRARY_PATH=/opt/real", "DATA=/usr/share/data:/work/more", "SHELL=/bin/sh", "AGENT=/.bee/rsh", "OTHER=/no/such"}, "/work/sub")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"cat", volume + "/in", "--out=" + volume + "/out", "/dev/null", "-n", "a=" + root + "/usr/share/data", "/tools/run/script"}
	if !slices.Equal(args, want) {
		t.Errorf("arguments %q, expected %q", args, want)
	}
	if dir != volume+"/sub" {
		t.Errorf("the working directory is %q", dir)
	}
	for _, e := range []string{"PATH=" + p.dir + "/bin", "DATA=" + root + "/usr/share/data:" + volume + "/more", "SHELL=/bin/sh", "AGENT=/tools/rsh", "OTHER=/no/such"} {
		if !slices.Contains(env, e) {
			t.Errorf("no %q in %q", e, env)
		}
	}
	if _, err := os.Stat(filepath.Join(valueOf(env, "OPAL_SYSCONFDIR"), "openmpi-mca-params.conf")); err != nil {
		t.Errorf("MPI would not find the image's settings: %v", err)
	}
	if valueOf(env, "LD_LIBRARY_PATH") != "" {
		t.Error("the host's programs would use the image's libraries")
	}
	if _, _, _, err := p.Command([]string{"cat"}, nil, "/usr/share"); !isPath(err) {
		t.Errorf("a working directory in the image: %v", err)
	}
}

func isPath(err error) bool { _, is := errors.AsType[*PathError](err); return is }

// TestScripts: a script that names a file of the image would use that of the host.
func TestScripts(t *testing.T) {
	p, _, _ := made(t)
	for script, refused := range map[string]bool{
		"cat in > out": false, "cat </dev/null; /bin/sh -c x": false, "cat /no/such": false, "s/work/x/ y": false,
		"cat /work/in": true, "cat>/work/in x": true, "cd /work\nls": true, "/opt/app/tool x": true, "x --file=/usr/share/data": true, "x $(cat /usr/share/data)": true,
	} {
		if _, _, _, err := p.Command([]string{"sh", "-c", script}, nil, "/work"); isPath(err) != refused {
			t.Errorf("%q: %v, expected refused: %v", script, err, refused)
		}
	}
}

// TestHostileTree: links and texts of an image lead nowhere but into it.
func TestHostileTree(t *testing.T) {
	root := tree(t)
	for name, target := range map[string]string{"usr/bin/out": "../../../../../../../bin/sh", "usr/bin/round": "round", "usr/lib/liboops.so": "/etc/passwd"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"usr/bin/a": "#!/usr/bin/b\n", "usr/bin/b": "#!/usr/bin/a\n", "usr/bin/short": "\x7fELF", "usr/bin/line": "#!", "usr/bin/q'x": "#!/usr/bin/cat\nquoted\n",
		"etc/ld.so.conf": "include /etc/ld.so.conf\n../..\n/usr/lib\n",
	} {
		if err := core.WriteProgram(filepath.Join(root, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "p")
	_, err := Make(dir, Input{Tree: root, Env: []string{"PATH=/usr/bin"}})
	if err != nil && !errors.Is(err, errDepth) {
		t.Fatal(err)
	}
	for _, name := range []string{"bin/out", "lib/liboops.so"} {
		if to, err := os.Readlink(filepath.Join(dir, name)); err == nil && !strings.HasPrefix(to, root+"/") {
			t.Errorf("%s leads to %s", name, to)
		}
	}
}
