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
	const mpich = "PATH=/opt/mpich/bin:/usr/bin"
	for _, c := range []struct {
		name, run, path string
		fails, warns    string // a part of the message; "" for none
	}{
		{"right pair", "mpirun -np 4 ompi-app x", "", "", ""},
		{"right pair of the other family", "mpirun mpich-app", mpich, "", ""},
		{"Open MPI's mpirun, MPICH's program", "mpirun /opt/mpich/bin/mpich-app", "", "rank 0 of 1", ""},
		{"MPICH's mpirun, Open MPI's program", "mpirun -np 2 ompi-app", mpich, "rank 0 of 1", ""},
		{"options with values", "mpirun -np 2 --mca btl self,tcp -x A --map-by node ompi-app", mpich, "rank 0 of 1", ""},
		{"an option that is not known", "mpirun --brand-new 2 ompi-app", mpich, "", ""},
		{"wrapper that tells nothing", "mpirun /opt/mpich/bin/mpich-app", "PATH=/opt/wrapped/bin:/usr/bin", "rank 0 of 1", ""},
		{"program in the volume", "mpirun ./built", "", "rank 0 of 1", ""},
		{"program that is not there", "mpirun ./nothing", mpich, "", ""},
		{"not an MPI program", "mpirun plain", mpich, "", ""},
		{"python with mpi4py", "mpirun python3 with.py", mpich, "rank 0 of 1", ""},
		{"python with mpi4py, right", "mpirun python3 -u with.py", "", "", ""},
		{"python without mpi4py", "mpirun python3 without.py", mpich, "", ""},
		{"python script by its first line", "mpirun tool.py", mpich, "rank 0 of 1", ""},
		{"program behind env and an assignment", "mpirun env A=b ompi-app", mpich, "rank 0 of 1", ""},
		{"no mpirun, but elsewhere", "mpirun ompi-app", "PATH=/bin", "no mpirun in its PATH", ""},
		{"no such mpirun", "mpiexec.hydra ompi-app", "", "no mpiexec.hydra", ""},
		{"mpirun by a path that is not there", "/opt/mpich/bin/mpiexec x", "", "no /opt/mpich/bin/mpiexec", ""},
		{"mpirun by a path in a mount", "/elsewhere/bin/mpiexec x", "", "", ""},
		{"mpirun in a mount over a directory of the image", "/opt/mounted/mpiexec x", "", "", ""},
		{"a PATH that names a mount", "mpirun ompi-app", "PATH=/opt/mounted/bin:/bin", "", ""},
		{"a PATH beside a mount", "mpirun ompi-app", "PATH=/opt/mountedtoo/bin:/bin", "no mpirun in its PATH", ""},
		{"environment changed before", ". /opt/setvars.sh; mpirun ompi-app", "PATH=/bin", "", "no mpirun in its PATH"},
		{"path set before", "export PATH=/x:$PATH; mpirun ompi-app", "PATH=/bin", "", "no mpirun in its PATH"},
		{"other variable set before", "export OMP_NUM_THREADS=1; mpirun ompi-app", "PATH=/bin", "no mpirun in its PATH", ""},
		{"after setup commands", "mkdir -p x; echo hi >x/f\nmpirun ompi-app 2>&1 | tee log", mpich, "rank 0 of 1", ""},
		{"on a condition", "test -x /bin/mpirun && mpirun ompi-app", "PATH=/bin", "", "no mpirun in its PATH"},
		{"in an if", "if true; then mpirun ompi-app; fi", mpich, "", "rank 0 of 1"},
		{"in a document", "cat <<E\nmpirun ompi-app\nE", mpich, "", ""},
		{"after a document", "cat > in <<E\nmpirun x\nE\nmpirun ompi-app", mpich, "rank 0 of 1", ""},
		{"in a substitution", "out=$(mpirun ompi-app)", mpich, "", "rank 0 of 1"},
		{"in a loop", "for i in 1 2; do mpirun ompi-app; done", mpich, "", "rank 0 of 1"},
		{"in escaped words", `mpirun \"x\" ompi-app`, mpich, "", ""},
		{"timed", "time mpirun ompi-app", mpich, "rank 0 of 1", ""},
		{"path set before the command", "PATH=/x mpirun ompi-app", "PATH=/bin", "", "no mpirun in its PATH"},
		{"nothing but brackets", strings.Repeat("(", longestScript), mpich, "", ""},
		{"a script that no shell reads", "if mpirun ompi-app", mpich, "", ""},
		{"in quotes", "echo 'mpirun ompi-app'", mpich, "", ""},
		{"in a comment", "true # mpirun ompi-app", mpich, "", ""},
		{"with an expansion", "mpirun -np $N ompi-app", mpich, "", "rank 0 of 1"},
		{"MPI program without mpirun", "ompi-app", "", "", "without mpirun"},
		{"python with mpi4py, without mpirun", "python3 -u with.py", "", "", "python3 -u with.py is an MPI program"},
		{"python module of mpi4py, without mpirun", "python3 -m mpi4py.bench helloworld", "", "", "without mpirun"},
		{"python script by its first line, without mpirun", "tool.py", "", "", "tool.py is an MPI program"},
		{"python without mpi4py, without mpirun", "python3 without.py", "", "", ""},
		{"python that starts mpirun itself", "python3 starts.py", "", "", ""},
		{"python that is not to be seen", "python3 -c 'import mpi4py'", "", "", ""},
		{"python module of mpi4py", "mpirun python3 -m mpi4py.bench helloworld", mpich, "rank 0 of 1", ""},
		{"plain program without mpirun", "plain", "", "", ""},
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
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("failed with %v, want %q", err, c.fails)
			}
			if err != nil && (core.Remedy(err) == "" || !core.IsKind(err, core.Invalid)) {
				t.Errorf("no remedy, or wrong kind: %v", err)
			}
			if all := strings.Join(warnings, "\n"); c.warns == "" && all != "" || !strings.Contains(all, c.warns) {
				t.Errorf("warned of %q, want %q", all, c.warns)
			}
		})
	}
}

func TestCheckNamesTheRightLauncher(t *testing.T) {
	root := testImage(t)
	_, err := Check(CheckInput{Root: root, Argv: []string{"mpirun", "mpich-app"}, Env: []string{"PATH=/usr/bin:/opt/mpich/bin"}, Hosts: 1})
	if got := core.Remedy(err); !strings.Contains(got, "/opt/mpich/bin/mpirun") {
		t.Errorf("remedy is %q", got)
	}
	_, err = Check(CheckInput{Root: root, Argv: []string{"mpirun", "x"}, Env: []string{"PATH=/bin"}, Hosts: 1})
	if got := core.Remedy(err); !strings.Contains(got, "/opt/mpich/bin/mpirun") || !strings.Contains(got, "/usr/bin/mpirun") {
		t.Errorf("remedy is %q", got)
	}
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
