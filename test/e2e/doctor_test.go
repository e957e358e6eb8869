package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestDoctorBringsSomethingThereAndBack: a site that answers is of no use where its cache
// or its scratch takes nothing.
func TestDoctorBringsSomethingThereAndBack(t *testing.T) {
	t.Parallel()
	b, farm, _ := rack(t, 1, "run: 'true'")
	b.Env = append(b.Env, "PATH="+farm.Bin) // a trial of podman would leave files of other users in HOME
	ok := func() (ok bool) {
		var d struct {
			Findings []struct {
				Area, Detail, Remedy string
				OK                   bool
			}
		}
		r := b.Try("doctor", "--json") // 204 where no site can be used
		if err := json.Unmarshal([]byte(r.Stdout), &d); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		for _, f := range d.Findings {
			if f.Area == "site" {
				t.Log(f.Detail)
				ok = f.OK
				if !f.OK && f.Remedy == "" {
					t.Error("it tells no remedy")
				}
			}
		}
		return ok
	}
	if !ok() {
		t.Fatal("a site that works is called unfit")
	}
	for _, dir := range []string{farm.There(filepath.Join(farm.Cache, "tmp")), filepath.Join(farm.Private, "bee-h0", "bee")} {
		if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if ok() {
			t.Errorf("a site where %s is a file is called fit", dir)
		}
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}
}

// TestDoctorTriesRuntimesBehindSSH: that a host answers is not all that a site needs.
// A job with `vm: auto` asks in the same way, and what its machines would boot cannot
// be built here.
func TestDoctorTriesRuntimesBehindSSH(t *testing.T) {
	testkit.RequireRoot(t) // for the setting
	t.Parallel()
	b, farm, job := rack(t, 1, "vm: auto", "run: echo contained")
	// What else is here is not the matter, as little as there, nor what is in the cache.
	b.Env = append(b.Env, "PATH="+farm.Bin, "BEE_CACHE="+t.TempDir())
	b.File("sites.yaml", strings.Replace(b.Read("sites.yaml"), "slots: 2", "slots: 2, runtime: rootless", 1))
	if f := findingOf(t, b, "site"); len(f) != 1 || f[0].Status != "ok" || !strings.Contains(f[0].Detail, " h0: ") || !strings.Contains(f[0].Detail, "rootless") {
		t.Errorf("of a host where containers start: %+v", f)
	}
	if out := b.Must("run", "-q", job); out != "contained\n" {
		t.Errorf("vm: auto, where containers start: %s", out)
	}
	argv := []string{"sh", "-c", "echo 0 >/proc/sys/user/max_user_namespaces"} // of the farm alone
	if exit, err := farm.Run(t.Context(), emulate.Command{Argv: argv, Env: os.Environ()}, os.Stdin, os.Stderr, os.Stderr); err != nil || exit.Code != 0 {
		t.Fatalf("%v, %+v", err, exit)
	}
	f := findingOf(t, b, "site")
	if len(f) != 1 || f[0].Status == "ok" || !strings.Contains(f[0].Detail, " h0: ") || !strings.Contains(f[0].Remedy, "max_user_namespaces") {
		t.Fatalf("of a host where none start: %+v", f)
	}
	_, why, _ := strings.Cut(f[0].Detail, " h0: ")
	if why = why[strings.LastIndex(why, ": ")+1:]; strings.Count(f[0].Detail+f[0].Remedy, why) > 1 {
		t.Errorf("it says so twice: %+v", f)
	}
	if r := b.Try("run", job); !strings.Contains(r.Stderr, "mmdebstrap") || !strings.Contains(r.Stderr, "rootless") || !strings.Contains(r.Stderr, "bee vm image pull") {
		t.Errorf("vm: auto, where neither containers nor machines are: %+v", r)
	}
}

// finding is what tests read of a finding of `bee doctor --json`.
type finding struct{ Area, Status, Detail, Remedy string }

// findingOf returns the findings of an area.
func findingOf(t *testing.T, b *testkit.Bee, area string) (found []finding) {
	t.Helper()
	var d struct{ Findings []finding }
	r := b.Try("doctor", "--json")
	if err := json.Unmarshal([]byte(r.Stdout), &d); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	for _, f := range d.Findings {
		if f.Area == area {
			found = append(found, f)
		}
	}
	return found
}
