package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/spec"
)

// TestSeveralJobsAreCheckedAndPlanned, each of them, in the order of their file.
func TestSeveralJobsAreCheckedAndPlanned(t *testing.T) {
	dir := t.TempDir()
	good, bad, sites := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "sites.yaml")
	for file, text := range map[string]string{
		good:  "name: two\nimage: busybox\nafter: [one]\n---\nname: one\nimage: busybox\nworkdir: /work\nrun: ./compute > result\n",
		bad:   "name: one\nimage: busybox\nsites: [there]\n---\nname: two\nimage: busybox\ninputs: [{from: nothing, to: /in}]\n",
		sites: "sites: [{name: here, provider: local}]\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type checked struct {
		Valid    bool
		Problems []spec.Problem
		Warnings []string
	}
	d := newDesk(t)
	var c checked
	if err := d.bee("--sites", sites, "check", "--json", good); err != nil || json.Unmarshal(d.out.Bytes(), &c) != nil || !c.Valid || len(c.Warnings) != 1 || c.Warnings[0][:5] != "one: " {
		t.Errorf("%v: %s", err, d.out.String())
	}
	c = checked{}
	if err := d.bee("--sites", sites, "check", "--json", bad); !errors.Is(err, console.Exit(console.ExitInvalid)) || json.Unmarshal(d.out.Bytes(), &c) != nil || len(c.Problems) != 2 || c.Problems[0].Line != 3 || c.Problems[1].Line != 7 {
		t.Errorf("%v: %s", err, d.out.String())
	}
	var planned []struct {
		Job   string
		Sites []struct{ Site string }
	}
	if err := d.bee("--sites", sites, "plan", "--json", good); err != nil || json.Unmarshal(d.out.Bytes(), &planned) != nil || len(planned) != 2 || planned[0].Job != "two" || planned[1].Job != "one" || len(planned[1].Sites) != 1 || planned[1].Sites[0].Site != "here" {
		t.Errorf("%v: %s", err, d.out.String())
	}
	if err := d.bee("image", "build", good); console.CodeOf(err) != console.ExitInvalid {
		t.Errorf("the image of several jobs: %v", err)
	}
}
