package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/sylabs/sif/v2/pkg/sif"
)

// TestRunASIFFile runs an image file of Apptainer, by its own run script and by a command.
func TestRunASIFFile(t *testing.T) {
	testkit.RequireTool(t, "mksquashfs")
	bee := testkit.NewBee(t)
	busybox := testkit.RequireTool(t, "busybox")
	dir := filepath.Dir(bee.File("root/bin/none", ""))
	for _, applet := range []string{"sh", "echo", "cat"} {
		raw, err := os.ReadFile(busybox)
		if err != nil {
			t.Fatal(err)
		}
		if err := core.WriteProgram(filepath.Join(dir, applet), raw, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := bee.File("root/.singularity.d/runscript", "#!/bin/sh\necho \"of $LAB\"\n")
	bee.File("root/.singularity.d/env/90-environment.sh", "export LAB=cfd\nexport PATH=/bin\n")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(filepath.Dir(filepath.Dir(dir)), "part")
	if out, err := exec.Command("mksquashfs", filepath.Dir(dir), part, "-no-progress", "-all-root", "-comp", "lzo").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw, err := os.ReadFile(part)
	if err != nil {
		t.Fatal(err)
	}
	root, err := sif.NewDescriptorInput(sif.DataPartition, bytes.NewReader(raw), sif.OptPartitionMetadata(sif.FsSquash, sif.PartPrimSys, runtime.GOARCH))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(part), "app.sif")
	c, err := sif.CreateContainerAtPath(file, sif.OptCreateWithDescriptors(root))
	if err == nil {
		err = c.UnloadContainer()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"run", "-q", file}, "of cfd\n"},
		{[]string{"run", "-q", "sif:" + file, "echo", "a", "command"}, "a command\n"},
		{[]string{"run", "-q", bee.File("job.yaml", "image: ./app.sif\nrun: echo $LAB\n")}, "cfd\n"},
	} {
		if got := bee.Try(test.args...); got.Code != 0 || got.Stdout != test.says {
			t.Errorf("%v: %d, %q\n%s", test.args, got.Code, got.Stdout, got.Stderr)
		}
	}
	if got := bee.Try("run", "-q", "docker-archive:"+file); got.Code == 0 || !strings.Contains(got.Stderr, "sif:FILE") {
		t.Errorf("as an archive of docker: %d, %s", got.Code, got.Stderr)
	}
}
