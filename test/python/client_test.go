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

// TestClient runs clients/python/tests with two emulated hosts and an image in the cache.
func TestClient(t *testing.T) {
	testkit.RequireTool(t, "python3")
	b := testkit.NewBee(t)
	b.Env = append(b.Env, "BEE_CACHE="+filepath.Join(b.Dir, "own-cache"), // you/app:1 is this test's own
		"BEE_SITES="+b.File("sites.yaml", "sites: [{name: lab, provider: local, hosts: 2, oversubscribe: true}]\n"))
	image := testkit.NewLayer(t)
	image.Busybox("bin", "sh echo cat sleep printf test true false")
	image.Add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/app", Mode: 0o755}, []byte(app))
	b.Must("image", "import", image.Archive("you/app:1", v1.Config{Env: []string{"PATH=/bin"}}))

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	client := filepath.Join(testkit.Root(t), "clients/python")
	c := exec.CommandContext(ctx, "python3", "-W", "error", "-m", "unittest", "discover", "-v", "-s", filepath.Join(client, "tests"))
	c.Dir = b.Work
	c.Env = append(append(os.Environ(), b.Env...), "PYTHONPATH="+client, "PYTHONDONTWRITEBYTECODE=1",
		"PATH="+filepath.Dir(testkit.Binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
