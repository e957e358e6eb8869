package cli

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/runrecords"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/spec"
)

func TestShowPrintsWhatWasRun(t *testing.T) {
	t.Setenv("MYTOKEN", "hush")
	d := newDesk(t, runrecords.Succeeded(t, runrecords.PiBeefile, nil))
	for _, args := range [][]string{{"show", "pi"}, {"show", "--json", "pi"}} {
		if err := d.bee(args...); err != nil || strings.Contains(d.out.String(), "hush") {
			t.Fatalf("%v, %s", err, d.out.String())
		}
	}
	var v runview.View
	if err := json.Unmarshal(d.out.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if v.ImageName != "lab/pi:2" || v.Image != "sha256:0123" || len(v.Command) != 3 || v.Command[2] != "./pi | tee pi.txt" || v.Env["STEPS"] != "10 000" || len(v.Secrets) != 1 || v.Secrets[0] != "TOKEN" ||
		v.Labels["project"] != "cfd" || v.Beefile != "/home/ann/pi/pi.yaml" || v.Directory != "/home/ann" || v.User != "ann" || v.Job.Version != "0.9" {
		t.Errorf("got %+v", v)
	}
	var listed []runview.View
	if err := d.bee("ps", "-a", "--json"); err != nil || json.Unmarshal(d.out.Bytes(), &listed) != nil || len(listed) != 1 || listed[0].Labels["project"] != "cfd" || len(listed[0].Env) > 0 {
		t.Errorf("%v, and ps prints %s", err, d.out.String())
	}
}

func TestShowOfAnImageThatWasBuilt(t *testing.T) {
	d := newDesk(t, runrecords.Succeeded(t, "build: {debian: bookworm}\nrun: [echo, a b]\n", nil))
	var v runview.View
	if err := d.bee("show", "--json", "pi"); err != nil || json.Unmarshal(d.out.Bytes(), &v) != nil || v.ImageName != "" || v.Built == "" || !slices.Equal(v.Command, []string{"echo", "a b"}) {
		t.Errorf("%v, %s", err, d.out.String())
	}
}

// TestShowBeefile prints a file that describes the same job.
func TestShowBeefile(t *testing.T) {
	d := newDesk(t, runrecords.Succeeded(t, runrecords.PiBeefile, nil))
	if err := d.bee("show", "--beefile", "pi"); err != nil {
		t.Fatal(err)
	}
	job, err := spec.ParseJob("x", d.out.Bytes(), "/elsewhere")
	if err != nil {
		t.Fatalf("%v\n%s", err, d.out.String())
	}
	if job.Name != "pi" || job.Nodes != 2 || job.Outputs[0].To != "/home/ann/pi" || job.Labels["project"] != "cfd" {
		t.Errorf("got %+v", job)
	}
	if err := d.bee("show", "--beefile", "--json", "pi"); err == nil {
		t.Errorf("both forms at once: %v", err)
	}
}

// TestAgainRefuses what cannot be, and nothing is left of it.
func TestAgainRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	d := newDesk(t, runrecords.Succeeded(t, runrecords.PiBeefile, nil))
	for _, line := range []string{"run --again pi job.yaml", "run --again nosuch", "retry pi", "retry nosuch", "run --again pi --label -x=y"} {
		if err := d.bee(strings.Fields(line)...); err == nil || strings.Contains(err.Error(), os.TempDir()) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
