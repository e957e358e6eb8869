package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// heldCounter counts to 60, but not beyond 40 while a condition holds: however
// slow all else is, it does not end before.
func heldCounter(while string) string {
	return `|
  n=$(cat state 2>/dev/null || echo 0)
  trap 'echo $n > state.new; mv state.new state; exit 85' TERM
  echo "from $n" >> log
  while [ $n -lt 60 ]; do [ $n -ge 40 -a ` + while + ` ] || n=$((n+1)); sleep 0.1; done
  echo $n > done`
}

// stored is a run whose checkpoints go to a store.
type stored struct {
	*testkit.Bee
	farm *sshfarm.Farm
	id   string
	job  string
}

type checkpoints struct {
	State       string
	Checkpoints []struct {
		Attempt int
		Files   int
		Path    string
	}
	History []struct{ Text string }
}

// begin starts a job on the one host of a rack, whose checkpoints go to a store.
// A second host is there for what store wants of it.
func beginStored(t *testing.T, store func(*testkit.Bee, *sshfarm.Farm) string, lines ...string) *stored {
	t.Helper()
	lines = append(lines, "volume: /data", "workdir: /data", "checkpoint: {grace: 3s}", "wait: 1ms", "outputs: [{from: /data/*, to: results}]")
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "run:") }) {
		lines = append(lines, "run: "+heldCounter("$(hostname) = h0"))
	}
	b, farm, job := rack(t, 2, lines...)
	one := b.File("one.yaml", "store: "+store(b, farm)+"\n"+strings.Replace(b.Read("sites.yaml"), "[h0, h1]", "[h0]", 1))
	b.Env = append(b.Env, "BEE_SITES="+one)
	s := &stored{Bee: b, farm: farm, job: job}
	s.id = strings.TrimSpace(b.Must("run", "-d", job))
	s.counts(t)
	return s
}

// counts waits until the job does.
func (s *stored) counts(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		if r := s.Try("exec", s.id, "--", "test", "-e", "/data/log"); r.Code != 0 {
			return s.Explained(s.id, r.Stderr)
		}
		return nil
	})
	time.Sleep(time.Second) // in which it counts
}

// suspended has the run write its checkpoint, on the only site, which takes nothing any
// more.
func (s *stored) suspended(t *testing.T) checkpoints {
	t.Helper()
	s.Must("checkpoint", s.id)
	s.shut(t, true)
	if v := s.Await(s.id, 2*time.Minute); v.State != "suspended" {
		t.Fatalf("the run: %+v\n%s", v, s.Must("show", s.id)+s.Try("logs", "--controller", s.id).Stdout)
	}
	return s.shown()
}

func (s *stored) shown() (v checkpoints) {
	s.JSON(&v, "show", "--json", s.id)
	return v
}

// shut has ssh find no way to the site, of new connections.
func (s *stored) shut(t *testing.T, is bool) {
	t.Helper()
	program, flag := filepath.Join(s.farm.Bin, "ssh"), filepath.Join(s.farm.Dir, "shut")
	if !is {
		os.Remove(flag)
		return
	}
	if _, err := os.Stat(program + ".real"); err != nil {
		script := "#!/bin/sh\ncase \"$*\" in *' -- h0 '*) [ -e " + flag + " ] && { echo 'h0: Connection refused' >&2; exit 255; };; esac\nexec " + program + ".real \"$@\"\n"
		if err := errors.Join(core.WriteProgram(program+".new", []byte(script), 0o755), os.Rename(program, program+".real"), os.Rename(program+".new", program)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// completes has the run continue here, and looks at what it has done.
func (s *stored) completes(t *testing.T, from string) {
	t.Helper()
	v := s.Await(s.id, 90*time.Second)
	if v.State != "succeeded" || v.Attempts[len(v.Attempts)-1].Site != "laptop" {
		t.Fatalf("the run: %+v\n%s", v, s.Must("show", s.id))
	}
	log := strings.Fields(strings.ReplaceAll(s.Read("results/log"), "from ", ""))
	if s.Read("results/done") != "60\n" || len(log) < 2 || log[0] != "0" || log[len(log)-1] == "0" || from != "" && log[len(log)-1] != from {
		t.Errorf("attempts began at %v, the last one should have at %q", log, from)
	}
}

func (s *stored) laptop() string {
	return s.File("both.yaml", s.Read("one.yaml")+"  - {name: laptop, provider: local}\n")
}

func directoryStore(b *testkit.Bee, _ *sshfarm.Farm) string {
	dir := filepath.Join(b.Dir, "store")
	os.Mkdir(dir, 0o700) //nolint:errcheck // bee reports where it is missing
	return dir
}

// farStore is one that only the second host sees.
func farStore(_ *testkit.Bee, farm *sshfarm.Farm) string {
	return "h1:" + filepath.Join(farm.Private, "bee-h1")
}

// scratchStore is one behind ssh that the site sees as well.
func scratchStore(_ *testkit.Bee, farm *sshfarm.Farm) string {
	dir := filepath.Join(farm.Dir, "scratch")
	os.Mkdir(dir, 0o700) //nolint:errcheck // bee reports where it is missing
	return "h1:" + dir
}

func bucketStore(b *testkit.Bee, s *s3server.Server) string {
	b.Env = append(b.Env, s.Env()...)
	return "s3://" + s.Bucket + "/of/ann"
}

// TestARunWaitsInAStore: with no site left, the checkpoint is in the store, and
// the run continues from there.
func TestARunWaitsInAStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store  func(*testkit.Bee, *sshfarm.Farm) string
		itself bool // the site writes there itself
	}{
		"directory": {directoryStore, true}, "ssh": {farStore, false}, "shared": {scratchStore, true},
		"bucket": {func(b *testkit.Bee, _ *sshfarm.Farm) string { return bucketStore(b, s3server.Start(t)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := beginStored(t, c.store)
			v := s.suspended(t)
			if strings.Contains(s.Must("logs", "--controller", s.id), "by the site itself") != c.itself {
				t.Errorf("by the site itself: want %v\n%s", c.itself, s.Must("logs", "--controller", s.id))
			}
			where := strings.TrimPrefix(strings.Fields(strings.SplitN(s.Read("one.yaml"), "\n", 2)[0])[1], "h1:")
			if !strings.Contains(v.Checkpoints[0].Path, where) {
				t.Errorf("the checkpoint lies in %s, not in %s", v.Checkpoints[0].Path, where)
			}
			if home, _ := filepath.Glob(filepath.Join(s.Dir, "state", "runs", "*", "checkpoints", "*")); len(home) > 0 {
				t.Errorf("at home lies %v", home)
			}
			exported := filepath.Join(s.Dir, "exported")
			s.Must("checkpoint", "export", s.id, exported)
			if files, err := os.ReadDir(exported); err != nil || len(files) == 0 {
				t.Errorf("exported is %v, %v", files, err)
			}
			s.Must("--sites", s.laptop(), "resume", "--site", "laptop", s.id)
			s.completes(t, "")
			s.Must("rm", s.id)
			s.shut(t, false)
			if left := s.Must("sweep", "--dry-run"); left != "" {
				t.Errorf("left in the store: %v", left)
			}
		})
	}
}

// TestAnotherMachineGoesOn: that which has submitted the run is gone. The one
// that continues knows the store, and nothing else.
func TestAnotherMachineGoesOn(t *testing.T) {
	t.Parallel()
	s := beginStored(t, directoryStore)
	s.suspended(t)
	store := filepath.Join(s.Dir, "store")
	other := testkit.NewBee(t)
	if r := other.Try("resume", "--from", store, "nobody"); r.Code == 0 || !strings.Contains(r.Stderr, s.id) {
		t.Errorf("a run that is not there: %+v", r)
	}
	other.Env = append(other.Env, "BEE_SITES="+other.File("sites.yaml", "sites:\n  - {name: laptop, provider: local}\n"))
	other.Must("resume", "--trust", "--from", store, "small")
	v := other.Await(s.id, 90*time.Second)
	if v.State != "succeeded" || s.Read("results/done") != "60\n" {
		t.Fatalf("the run: %+v\n%s", v, other.Must("show", s.id))
	}
	s.shut(t, false)
	if r := s.Try("resume", s.id); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	if v := s.Await(s.id, time.Minute); v.State != "failed" || v.Error == nil || !strings.Contains(v.Error.Message, "another installation") {
		t.Errorf("the machine that came back: %+v", v)
	}
	s.Must("rm", s.id)
	s.Must("sweep", "--store", store)
	if kept, _ := filepath.Glob(filepath.Join(store, "*")); len(kept) == 0 {
		t.Error("the machine that came back has swept away what is no longer its own")
	}
	other.Must("rm", s.id)
	if left, _ := filepath.Glob(filepath.Join(store, "*")); len(left) > 0 {
		t.Errorf("left in the store: %v", left)
	}
}
