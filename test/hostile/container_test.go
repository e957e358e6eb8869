package hostile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// treasure is a directory of the user's outside of all that a job may reach.
func treasure(t *testing.T) (dir string, untouched func()) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range []string{"precious", "state"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("private"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, func() {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 2 {
			t.Errorf("outside there are now %v, %v", entries, err)
		}
		for _, e := range entries {
			if raw, err := os.ReadFile(filepath.Join(dir, e.Name())); err != nil || string(raw) != "private" {
				t.Errorf("%s outside is now %q, %v", e.Name(), raw, err)
			}
		}
	}
}

// TestAStopFileThatLeadsOut: a job makes its stop file a link to a file of the user's.
func TestAStopFileThatLeadsOut(t *testing.T) {
	out, untouched := treasure(t)
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {file: /work/STOP, grace: 20s, paths: [/work/state]}",
		"run: ln -s "+out+"/precious STOP; echo begun; while [ -L STOP ]; do sleep 0.1; done; echo saved > state; exit 85", "resume: cat state")
	id := strings.TrimSpace(b.Must("run", "-q", "-d", job))
	testkit.Eventually(t, time.Minute, func() error {
		if b.Try("logs", id).Stdout != "begun\n" {
			return os.ErrNotExist
		}
		return nil
	})
	b.Must("checkpoint", id)
	if v := b.Await(id, 2*time.Minute); v.State != "succeeded" {
		t.Errorf("%+v", v)
	}
	untouched()
}

// TestACheckpointThatLeadsOut: a job swaps a directory of its checkpoint for a link, all
// the time while copies are kept.
func TestACheckpointThatLeadsOut(t *testing.T) {
	out, untouched := treasure(t)
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {every: 1s, grace: 5s, paths: [/work/ckpt/state]}", "outputs: [{from: /work/log, to: ./results}]",
		"run: |", "  mkdir ckpt; echo mine > ckpt/state; sleep 2; echo done > log", "  n=0; while [ $n -lt 400 ]; do mv ckpt was; ln -s "+out+" ckpt; rm ckpt; mv was ckpt; n=$((n+1)); done")
	if r := b.Try("run", "-q", job); r.Code != 0 {
		t.Errorf("%+v", r)
	}
	untouched()
}

// TestOutputsOfHostsThatLeadOut: each host has a volume of its own, in which the job has
// links to what is private there.
func TestOutputsOfHostsThatLeadOut(t *testing.T) {
	out, untouched := treasure(t)
	b, job := busyboxJob(t, "workdir: /work", "nodes: 2", "outputs: [{from: '/work/*/*', to: ./results}]",
		"run: for h in $(echo $BEE_NODELIST | tr , ' '); do /.bee/rsh $h 'cd /work; mkdir -p real; hostname > real/$(hostname); ln -s "+out+" logs; ln -s ../../.. up'; done")
	b.File("sites.yaml", "sites: [{name: apart, provider: local, hosts: 2, private_scratch: true}]\n")
	if r := b.Try("--sites", filepath.Join(b.Work, "sites.yaml"), "run", "-q", job); r.Code != 0 {
		t.Errorf("%+v", r)
	}
	found, err := filepath.Glob(filepath.Join(b.Work, "results", "*"))
	if err != nil || len(found) != 2 {
		t.Errorf("what came home: %q, %v", found, err)
	}
	for _, f := range found {
		if raw, err := os.ReadFile(f); err != nil || string(raw) == "private" {
			t.Errorf("%s holds %q, %v", f, raw, err)
		}
	}
	untouched()
}
