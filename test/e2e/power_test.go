package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// disk is a file system in a file. What the file holds is what a disk would hold after a
// power cut: what was written and not synced is in memory only.
type disk struct{ image, at string }

// newDisk mounts one that writes nothing by itself for as long as a test takes.
func newDisk(t *testing.T, at string) disk {
	t.Helper()
	testkit.RequireRoot(t) // to mount it
	d := disk{filepath.Join(t.TempDir(), "disk.img"), at}
	command(t, "truncate", "-s", "64M", d.image)
	command(t, "mkfs.ext4", "-q", "-E", "lazy_itable_init=0", d.image)
	d.mount(t, "loop,commit=600")
	return d
}

func (d disk) mount(t *testing.T, options string) {
	t.Helper()
	if err := os.MkdirAll(d.at, 0o755); err != nil {
		t.Fatal(err)
	}
	command(t, "mount", "-o", options, d.image, d.at)
	t.Cleanup(func() { unix.Unmount(d.at, unix.MNT_DETACH) })
}

// cut gives the disk after a power cut at this moment and a start of the machine.
func (d disk) cut(t *testing.T, name string) disk {
	t.Helper()
	after := disk{filepath.Join(filepath.Dir(d.image), name+".img"), filepath.Join(t.TempDir(), "disk")}
	command(t, "cp", "--sparse=always", d.image, after.image)
	out, err := exec.CommandContext(t.Context(), "e2fsck", "-fy", after.image).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() > 1) { //nolint:errorlint // of this very call; 1: its journal was replayed
		t.Fatalf("e2fsck: %v\n%s", err, out)
	}
	after.mount(t, "loop")
	return after
}

func command(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// TestPowerCut cuts the power of the submitting machine at each step that a run reports,
// and when it is over. From the moment when the site has removed its copy, the results
// are on the disk whole, and so is the record.
func TestPowerCut(t *testing.T) {
	testkit.AsRootToo(t)
	for name, c := range map[string]struct {
		outputs string
		there   map[string]string // before the run
		results []string          // ID stands for the run's
		end     string            // the run's state
	}{
		"outputs":                  {"[{from: /work/res, to: ./disk/new/results}, {from: /work/one, to: ./disk}]", nil, []string{"new/results/res/big", "new/results/res/deep/small", "one"}, "succeeded"},
		"into what is there":       {"[{from: /work/res, to: ./disk}]", map[string]string{"res/big": "old", "res/deep": "a file"}, []string{"res/big", "res/deep.ID/small"}, "succeeded"},
		"nothing matches":          {"[{from: /work/none, to: ./disk}]", nil, []string{"state/runs/ID/volume/res/big", "state/runs/ID/volume/one"}, "failed"},
		"something cannot leave":   {"[{from: /work/odd, to: ./disk}]", nil, []string{"odd/f", "state/runs/ID/volume/one"}, "succeeded"},
		"a pattern with one twice": {`[{from: "/work/*/*", to: ./disk/r}, {from: "/work/res/b*", to: ./disk/r}]`, nil, []string{"r/res/big", "r/deep/small"}, "succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			b, job := busyboxJob(t, "run: 'mkdir -p res/deep odd; seq 100000 >res/big; seq 20 >res/deep/small; seq 30 >one; seq 40 >odd/f; mkfifo odd/p'",
				"workdir: /work", "outputs: "+c.outputs)
			d := newDisk(t, filepath.Join(b.Work, "disk"))
			b.Env = append(b.Env, "BEE_STATE="+filepath.Join(d.at, "state"))
			for name, text := range c.there {
				b.File("disk/"+name, text)
			}
			command(t, "sync", "-f", d.at)
			cmd := b.Command("run", job)
			steps, err := cmd.StderrPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cmd.Process.Kill() })
			cuts := 0
			check := func(at string) {
				if volumes, _ := filepath.Glob(filepath.Join(b.Dir, "scratch", "bee", "*", "volume")); len(volumes) > 0 {
					return // the site has it all
				}
				runs, _ := filepath.Glob(filepath.Join(d.at, "state/runs/*/output-1.log"))
				if len(runs) == 0 {
					return // nothing has come yet
				}
				id := filepath.Base(filepath.Dir(runs[0]))
				cuts++
				after := d.cut(t, fmt.Sprint("cut", cuts))
				for _, name := range c.results {
					name = strings.ReplaceAll(name, "ID", id)
					want, err := os.ReadFile(filepath.Join(d.at, name))
					got, gerr := os.ReadFile(filepath.Join(after.at, name))
					if err != nil || gerr != nil || string(got) != string(want) {
						t.Errorf("%s: %s has %d bytes of %d: %v, %v", at, name, len(got), len(want), err, gerr)
					}
				}
				env := b.Env
				b.Env = append(b.Env, "BEE_STATE="+filepath.Join(after.at, "state"))
				var v struct{ State string }
				if b.JSON(&v, "show", "--json", id); v.State != c.end && cmd.ProcessState != nil {
					t.Errorf("%s: the run is %s", at, v.State)
				}
				b.Env = env
			}
			for lines := bufio.NewScanner(steps); lines.Scan(); {
				cmd.Process.Signal(unix.SIGSTOP)
				check(lines.Text())
				cmd.Process.Signal(unix.SIGCONT)
			}
			if err := cmd.Wait(); (err == nil) != (c.end == "succeeded") {
				t.Fatal(err)
			}
			if check("after the run"); cuts == 0 {
				t.Error("the power was never cut")
			}
		})
	}
}
