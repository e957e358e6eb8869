package spec

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFilesThatAreNotHere: what outputs make is not missing, nor what is here. What a pattern beside
// outputs will match is not known.
func TestFilesThatAreNotHere(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "own.dat"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	made := MadeFiles{}
	made.Add(filepath.Join(dir, "results", "1"))
	made.Add(filepath.Join(dir, "results", "1", "deep"))
	for from, here := range map[string]bool{
		"own.dat": true, "*.dat": true, "none.dat": false, "none/*": false, "none*": true, "results": true, "results/1": true, "results/1/out": true, "results/*/out": true, "results/2": false, "resulted": false,
	} {
		job := Job{Image: "a", Inputs: []Input{{From: filepath.Join(dir, from), To: "/work"}}}
		if got := job.NotHere(made); (got == "") != here {
			t.Errorf("%s: %q is not here", from, got)
		}
	}
	for image, here := range map[string]bool{"registry.example.org/app:1": true, "docker-archive:" + dir + "/own.dat": true, "docker-archive:" + dir + "/app.tar:app:1": false, "oci:" + dir + "/results/1/image": true} {
		job := Job{Image: image, Dir: dir}
		if got := job.NotHere(made); (got == "") != here {
			t.Errorf("%s: %q is not here", image, got)
		}
	}
}
