// Package python runs the tests of the Python client, which call the real bee.
package python

import (
	"archive/tar"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const app = `#!/bin/sh
echo "steps $1"
echo "result $1" > result.txt
`

// TestClient runs the client's tests, among them those of what docs/how-to/python.md shows.
func TestClient(t *testing.T) {
	python := testkit.RequireTool(t, "python3")
	run(t, python, "-W", "error", "-m", "unittest", "discover", "-v", "-s", filepath.Join(client(t), "tests"))
}

// TestNotebook displays a run in a real kernel of Jupyter.
func TestNotebook(t *testing.T) {
	testkit.Long(t, "TestClient")
	env := filepath.Join(t.TempDir(), "env")
	python := filepath.Join(env, "bin", "python")
	for _, args := range [][]string{
		{"-m", "venv", "--without-pip", env},
		{"-m", "pip", "--python", python, "install", "-q", "nbclient==0.10.2", "ipykernel==6.30.1", "pandas"},
	} {
		if out, err := exec.CommandContext(t.Context(), testkit.RequireTool(t, "python3"), args...).CombinedOutput(); err != nil {
			t.Fatalf("python3 %q: %v\n%s", args, err, out)
		}
	}
	run(t, python, filepath.Join(client(t), "tests", "notebook.py"))
}

// TestEngines runs the jobs of docs/how-to/workflow-engines.md by Snakemake, Parsl and PSI/J, which hack/deps.sh has installed.
func TestEngines(t *testing.T) {
	t.Parallel()
	b := testkit.NewBee(t)
	b.Env = append(b.Env, "BEE_SITES="+b.File("sites.yaml", "sites:\n  - {name: lab, provider: local, hosts: 2, oversubscribe: true}\n  - {name: here, provider: local, oversubscribe: true}\n"))
	b.CopyExamples("mpi4py")
	b.Must("image", "build", "--trust", "--tag", "you/app:1", "mpi4py/job.yaml")
	b.File("pi.py", b.Read("mpi4py/input/pi.py"))
	python := testkit.RequireTool(t, "/usr/local/share/bee-test/engines/bin/python")
	call(t, b, client(t)+":"+filepath.Join(client(t), "engines"), python, filepath.Join(client(t), "tests", "engines.py"))
}

func client(t *testing.T) string {
	t.Helper()
	return filepath.Join(testkit.Root(t), "clients", "python")
}

// run runs Python where the client is found, with two emulated hosts and an image.
func run(t *testing.T, python string, args ...string) {
	t.Helper()
	b := testkit.NewBee(t)
	b.Env = append(b.Env, "BEE_CACHE="+filepath.Join(b.Dir, "own-cache"), // you/app:1 is this test's own
		"BEE_SITES="+b.File("sites.yaml", "sites: [{name: lab, provider: local, hosts: 2, oversubscribe: true}]\n"))
	image := testkit.NewLayer(t)
	image.Busybox("bin", "sh echo cat sleep printf test true false")
	image.Add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/app", Mode: 0o755}, []byte(app))
	b.Must("image", "import", image.Archive("you/app:1", v1.Config{Env: []string{"PATH=/bin"}}))
	call(t, b, client(t), python, args...)
}

// call runs Python with directories of packages.
func call(t *testing.T, b *testkit.Bee, packages, python string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, python, args...)
	c.Dir = b.Work
	c.Env = append(append(os.Environ(), b.Env...), "PYTHONPATH="+packages, "PYTHONDONTWRITEBYTECODE=1",
		"PATH="+filepath.Dir(testkit.Binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
