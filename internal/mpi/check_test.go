package mpi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

func writeELF(t *testing.T, path string, needed []string, runpath string, exports ...string) {
	t.Helper()
	testkit.SharedObject{Needed: needed, Runpath: runpath, Exports: exports}.Write(t, path)
}

// testImage makes a tree with Open MPI in the places of Debian, MPICH in
// /opt/mpich, a program of each, and one of Open MPI that finds its library by
// another library's run path.
func testImage(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	at := func(p string) string { return filepath.Join(root, p) }
	text := func(p, s string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at(p)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(p), []byte(s), mode); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, p string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at(p)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, at(p)); err != nil {
			t.Fatal(err)
		}
	}
	writeELF(t, at("/usr/bin/orterun"), []string{"libopen-rte.so.40"}, "")
	link("orterun", "/usr/bin/mpirun.openmpi")
	link("/usr/bin/mpirun.openmpi", "/etc/alternatives/mpirun") // absolute: inside the image
	link("/etc/alternatives/mpirun", "/usr/bin/mpirun")
	writeELF(t, at("/usr/lib/x86_64-linux-gnu/openmpi/lib/libmpi.so.40.30"), nil, "", "ompi_mpi_comm_world")
	link("openmpi/lib/libmpi.so.40.30", "/usr/lib/x86_64-linux-gnu/libmpi.so.40")
	writeELF(t, at("/usr/lib/x86_64-linux-gnu/libapp.so"), []string{"libmpi.so.40"}, "")
	writeELF(t, at("/usr/bin/ompi-app"), []string{"libapp.so"}, "")
	writeELF(t, at("/usr/bin/plain"), []string{"libc.so.6"}, "")
	text("/opt/mpich/bin/mpirun", "\x7fELF … HYDRA_LAUNCHER …", 0o755)
	writeELF(t, at("/opt/mpich/lib/libmpi.so.12"), nil, "", "MPI_Init", "MPII_Comm_init")
	writeELF(t, at("/opt/mpich/bin/mpich-app"), []string{"libmpi.so.12"}, "$ORIGIN/../lib")
	text("/opt/mounted/README", "", 0o644)
	text("/opt/wrapped/bin/mpirun", "tells nothing", 0o755)
	text("/opt/wrapped/bin/prterun", "", 0o755)
	writeELF(t, at("/usr/bin/python3.11"), []string{"libc.so.6"}, "")
	link("python3.11", "/usr/bin/python3")
	writeELF(t, at("/usr/lib/python3/dist-packages/mpi4py/MPI.cpython-311.so"), []string{"libmpi.so.40"}, "")
	text("/usr/bin/tool.py", "#!/usr/bin/env python3\nfrom mpi4py import MPI\n", 0o755)
	return root
}

func TestCheckStopsOnlyWhatIsCertain(t *testing.T) {
	root := testImage(t)
	volume := t.TempDir()
	for name, text := range map[string]string{
		"with.py": "from mpi4py import MPI", "without.py": "print(1)",
		"starts.py": "import mpi4py, os\nos.system('mpirun ompi-app')\n",
	} {
		if err := os.WriteFile(filepath.Join(volume, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	writeELF(t, filepath.Join(volume, "built"), []string{"libmpi.so.12"}, "/opt/mpich/lib")
	var failed testkit.ErrorList
	var warned strings.Builder
	const mpich = "PATH=/opt/mpich/bin:/usr/bin"
	for _, c := range []struct {
		name, run, path string
		fails, warns    bool
	}{
		{"right pair", "mpirun -np 4 ompi-app x", "", false, false},
		{"right pair of the other family", "mpirun mpich-app", mpich, false, false},
		{"Open MPI's mpirun, MPICH's program", "mpirun /opt/mpich/bin/mpich-app", "", true, false},
		{"MPICH's mpirun, Open MPI's program", "mpirun -np 2 ompi-app", mpich, true, false},
		{"options with values", "mpirun -np 2 --mca btl self,tcp -x A --map-by node ompi-app", mpich, true, false},
		{"an option that is not known", "mpirun --brand-new 2 ompi-app", mpich, false, false},
		{"wrapper that tells nothing", "mpirun /opt/mpich/bin/mpich-app", "PATH=/opt/wrapped/bin:/usr/bin", true, false},
		{"program in the volume", "mpirun ./built", "", true, false},
		{"program that is not there", "mpirun ./nothing", mpich, false, false},
		{"not an MPI program", "mpirun plain", mpich, false, false},
		{"python with mpi4py", "mpirun python3 with.py", mpich, true, false},
		{"python with mpi4py, right", "mpirun python3 -u with.py", "", false, false},
		{"python without mpi4py", "mpirun python3 without.py", mpich, false, false},
		{"python script by its first line", "mpirun tool.py", mpich, true, false},
		{"program behind env and an assignment", "mpirun env A=b ompi-app", mpich, true, false},
		{"no mpirun, but elsewhere", "mpirun ompi-app", "PATH=/bin", true, false},
		{"no such mpirun", "mpiexec.hydra ompi-app", "", true, false},
		{"mpirun by a path that is not there", "/opt/mpich/bin/mpiexec x", "", true, false},
		{"mpirun by a path in a mount", "/elsewhere/bin/mpiexec x", "", false, false},
		{"mpirun in a mount over a directory of the image", "/opt/mounted/mpiexec x", "", false, false},
		{"a PATH that names a mount", "mpirun ompi-app", "PATH=/opt/mounted/bin:/bin", false, false},
		{"a PATH beside a mount", "mpirun ompi-app", "PATH=/opt/mountedtoo/bin:/bin", true, false},
		{"environment changed before", ". /opt/setvars.sh; mpirun ompi-app", "PATH=/bin", false, true},
		{"path set before", "export PATH=/x:$PATH; mpirun ompi-app", "PATH=/bin", false, true},
		{"other variable set before", "export OMP_NUM_THREADS=1; mpirun ompi-app", "PATH=/bin", true, false},
		{"after setup commands", "mkdir -p x; echo hi >x/f\nmpirun ompi-app 2>&1 | tee log", mpich, true, false},
		{"on a condition", "test -x /bin/mpirun && mpirun ompi-app", "PATH=/bin", false, true},
		{"in an if", "if true; then mpirun ompi-app; fi", mpich, false, true},
		{"in a document", "cat <<E\nmpirun ompi-app\nE", mpich, false, false},
		{"after a document", "cat > in <<E\nmpirun x\nE\nmpirun ompi-app", mpich, true, false},
		{"in a substitution", "out=$(mpirun ompi-app)", mpich, false, true},
		{"in a loop", "for i in 1 2; do mpirun ompi-app; done", mpich, false, true},
		{"in escaped words", `mpirun \"x\" ompi-app`, mpich, false, false},
		{"timed", "time mpirun ompi-app", mpich, true, false},
		{"path set before the command", "PATH=/x mpirun ompi-app", "PATH=/bin", false, true},
		{"nothing but brackets", strings.Repeat("(", longestScript), mpich, false, false},
		{"a script that no shell reads", "if mpirun ompi-app", mpich, false, false},
		{"in quotes", "echo 'mpirun ompi-app'", mpich, false, false},
		{"in a comment", "true # mpirun ompi-app", mpich, false, false},
		{"with an expansion", "mpirun -np $N ompi-app", mpich, false, true},
		{"MPI program without mpirun", "ompi-app", "", false, true},
		{"python with mpi4py, without mpirun", "python3 -u with.py", "", false, true},
		{"python module of mpi4py, without mpirun", "python3 -m mpi4py.bench helloworld", "", false, true},
		{"python script by its first line, without mpirun", "tool.py", "", false, true},
		{"python without mpi4py, without mpirun", "python3 without.py", "", false, false},
		{"python that starts mpirun itself", "python3 starts.py", "", false, false},
		{"python that is not to be seen", "python3 -c 'import mpi4py'", "", false, false},
		{"python module of mpi4py", "mpirun python3 -m mpi4py.bench helloworld", mpich, true, false},
		{"plain program without mpirun", "plain", "", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := c.path
			if path == "" {
				path = "PATH=/usr/bin"
			}
			warnings, err := Check(CheckInput{
				Root: root, Argv: []string{"/bin/sh", "-c", c.run}, Env: []string{path},
				Hosts: 2, Volume: "/work", VolumeDir: volume, Workdir: "/work", Elsewhere: []string{"/opt/mounted"},
			})
			if (err != nil) != c.fails || (len(warnings) > 0) != c.warns {
				t.Errorf("failed with %v, want %v; warned of %q, want %v", err, c.fails, warnings, c.warns)
			}
			if err != nil && (core.Remedy(err) == "" || !core.IsKind(err, core.Invalid)) {
				t.Errorf("no remedy, or wrong kind: %v", err)
			}
			if c.fails {
				failed.Add(c.name, err)
			}
			if c.warns {
				warned.WriteString(c.name + ":\n" + strings.Join(warnings, "\n") + "\n\n")
			}
		})
	}
	failed.Compare(t, "check")
	testkit.Golden(t, "check-warnings", warned.String())
}

func TestCheckNamesTheRightLauncher(t *testing.T) {
	root := testImage(t)
	_, err := Check(CheckInput{Root: root, Argv: []string{"mpirun", "mpich-app"}, Env: []string{"PATH=/usr/bin:/opt/mpich/bin"}, Hosts: 1})
	var failed testkit.ErrorList
	failed.Add("the other launcher, which is there", err)
	_, err = Check(CheckInput{Root: root, Argv: []string{"mpirun", "x"}, Env: []string{"PATH=/bin"}, Hosts: 1})
	failed.Add("no launcher in the PATH, and two elsewhere", err)
	failed.Compare(t, "launchers")
}

func TestEntrypointAndLoginShellAreNotTrusted(t *testing.T) {
	root := testImage(t)
	for _, argv := range [][]string{{"/entrypoint.sh", "sh", "-c", "mpirun x"}, {"bash", "-lc", "mpirun x"}} {
		warnings, err := Check(CheckInput{Root: root, Argv: argv, Env: []string{"PATH=/bin"}, Hosts: 2})
		if err != nil || len(warnings) != 1 {
			t.Errorf("%q: %v, %v", argv, warnings, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	root := f.TempDir()
	for _, s := range []string{"mpirun -np 2 ./x", "if [ -f a ]; then\nmpirun 'a b' \"$c\" `d`\nfi", "a\\", "'", "((", "<<E", "mpirun --", "env", "-c", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		Check(CheckInput{Root: root, Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/bin"}, Hosts: 2}) //nolint:errcheck // it must not panic
		Check(CheckInput{Root: root, Argv: strings.Fields(script), Hosts: 2})                                   //nolint:errcheck // see above
	})
}
