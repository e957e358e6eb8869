package slurm

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
)

// TestAccountsHaveLimits: what accounts and QOS allow counts as what partitions do, before
// a job is submitted where it can be reported, and in the queue where not.
func TestAccountsHaveLimits(t *testing.T) {
	f := slurmfarm.StartAccounted(t, 1, "phys", "maxwall=30")
	f.Books(t, "add", "qos", "short", "maxwall=5")
	f.Books(t, "add", "qos", "long", "maxwall=1:00:00")
	f.Books(t, "add", "qos", "strict", "maxwall=5", "flags=DenyOnLimit")
	f.Books(t, "add", "qos", "narrow", "maxtresperjob=node=0")
	f.Account(t, "math", "qos=normal,short,long,strict,narrow", "maxwall=30")
	f.Account(t, "chem", "grptres=cpu=1")
	f.Account(t, "art", "maxsubmitjobs=1", "qos=long", "defaultqos=long", "maxwall=30")

	f.Books(t, "add", "qos", "humble", "gracetime=20")
	f.Books(t, "add", "qos", "shared")
	f.Books(t, "add", "qos", "urgent", "preempt=humble,shared")
	f.Books(t, "add", "qos", "equals", "preemptmode=within,cancel", "gracetime=10")
	f.Books(t, "add", "qos", "within", "preemptmode=within")
	f.Books(t, "add", "qos", "above", "maxwall=1:00:00", "flags=OverPartQOS")
	f.Account(t, "geo", "qos=normal,short,long,above,humble,shared,urgent,equals,within", "maxwall=30")
	scontrol(t, f, "create", "partitionname=ruled", "nodes=ALL", "qos=short", "maxtime=1-0")

	logins := &sshlink.Logins{}
	at := func(s Settings) driver.Provider { return siteAmong(t, f, s, logins) }

	t.Run("asked for once, for all", func(t *testing.T) {
		before := f.Answered(t)
		var wg sync.WaitGroup
		for i := range 30 { // each run makes its own provider
			p := at(Settings{Slot: time.Duration(i%5+1) * time.Minute, Account: []string{"phys", "math"}[i%2]})
			wg.Go(func() {
				if facts, err := p.Probe(t.Context()); err != nil || !facts.Usable || !strings.HasPrefix(facts.Version, "2") || facts.Notice != 5*time.Second {
					t.Errorf("%+v, %v", facts, err)
				}
			})
		}
		wg.Wait()
		after := f.Answered(t)
		for question, want := range map[string]int{"REQUEST_BUILD_INFO": 1, "REQUEST_NODE_INFO": 1, "REQUEST_PARTITION_INFO": 2, "DBD_GET_USERS": 1, "DBD_GET_QOS": 3} {
			if n := after[question] - before[question]; n != want {
				t.Errorf("30 probes made %d of %s", n, question)
			}
		}
	})
	t.Run("asked for anew after a refusal", func(t *testing.T) {
		p := at(Settings{Slot: time.Minute, Partition: "high"})
		if facts, err := p.Probe(t.Context()); err != nil || !facts.Usable {
			t.Errorf("%+v, %v", facts, err)
		}
		scontrol(t, f, "update", "partition=high", "state=drain")
		if _, err := p.Acquire(t.Context(), want("drained")); !core.IsKind(err, core.Busy) || core.Remedy(err) == "" {
			t.Errorf("a drained partition: %v", err)
		}
		if facts, err := p.Probe(t.Context()); err != nil || facts.Usable || !facts.Passing || !strings.Contains(facts.Reason, "partition high ") {
			t.Errorf("once sbatch has refused: %+v, %v", facts, err)
		}
		scontrol(t, f, "update", "partition=high", "state=up")
		testkit.Eventually(t, settled, func() error {
			facts, err := p.Probe(t.Context())
			if err == nil && !facts.Usable {
				err = fmt.Errorf("up again: %+v", facts)
			}
			return err
		})
	})
	t.Run("in the plan", func(t *testing.T) {
		for name, c := range map[string]struct {
			s     Settings
			names []string // in the reason: what limits it, and the limit
		}{
			"the default account":      {Settings{Slot: 40 * time.Minute}, []string{"account phys ", "40m0s", "30m0s"}},
			"in time":                  {Settings{Slot: 30 * time.Minute}, nil},
			"a QOS":                    {Settings{Slot: 10 * time.Minute, Account: "math", QOS: "short"}, []string{"QOS short ", "5m0s"}},
			"a QOS that allows more":   {Settings{Slot: 40 * time.Minute, Account: "math", Options: []string{"--qos=long"}}, nil},
			"an account's own QOS":     {Settings{Slot: 2 * time.Hour, Account: "art"}, []string{"QOS long ", "1h0m0s"}},
			"no limit":                 {Settings{Slot: 2 * time.Hour, Account: "chem"}, nil},
			"a partition allows less":  {Settings{Slot: 10 * time.Minute, Partition: "brief"}, []string{"partition brief ", "1m0s"}},
			"a partition's QOS":        {Settings{Slot: 10 * time.Minute, Account: "geo", Partition: "ruled"}, []string{"QOS short ", "5m0s"}},
			"before that of the job":   {Settings{Slot: 10 * time.Minute, Account: "geo", Partition: "ruled", QOS: "long"}, []string{"QOS short ", "5m0s"}},
			"in time for it":           {Settings{Slot: 5 * time.Minute, Account: "geo", Partition: "ruled", QOS: "long"}, nil},
			"a QOS above it":           {Settings{Slot: 40 * time.Minute, Account: "geo", Partition: "ruled", QOS: "above"}, nil},
			"too long for that":        {Settings{Slot: 2 * time.Hour, Account: "geo", Partition: "ruled", QOS: "above"}, []string{"QOS above ", "1h0m0s"}},
			"a partition that is long": {Settings{Slot: 48 * time.Hour, Account: "chem"}, []string{"partition main "}},
		} {
			facts, err := at(c.s).Probe(t.Context())
			lacks := func(part string) bool { return !strings.Contains(facts.Reason, part) }
			if err != nil || facts.Usable != (c.names == nil) || slices.ContainsFunc(c.names, lacks) {
				t.Errorf("%s: %+v, %v", name, facts, err)
			}
		}
	})
	t.Run("in the queue", func(t *testing.T) {
		for name, c := range map[string]struct {
			s      Settings
			reason string // Slurm's
		}{
			"account": {Settings{Slot: 40 * time.Minute}, "(AssocMaxWallDurationPerJobLimit)"},
			"qos":     {Settings{Slot: 10 * time.Minute, Account: "math", QOS: "short"}, "(QOSMaxWallDurationPerJobLimit)"},
			"ruled":   {Settings{Slot: 10 * time.Minute, Account: "geo", Partition: "ruled", QOS: "long"}, "(QOSMaxWallDurationPerJobLimit)"},
			"over":    {Settings{Slot: 2 * time.Hour, Account: "geo", Partition: "ruled", QOS: "above"}, "(QOSMaxWallDurationPerJobLimit)"},
			"nodes":   {Settings{Slot: time.Minute, Account: "math", QOS: "narrow"}, "(QOSMaxNodePerJobLimit)"},
		} {
			l := acquired(t, at(c.s), want(name))
			lost(t, l, c.reason)
		}
		waits(t, acquired(t, at(Settings{Slot: 40 * time.Minute, Account: "geo", Partition: "ruled", QOS: "above"}), want("above")), "")
	})
	t.Run("preemption", func(t *testing.T) {
		for level, last := range map[string]time.Duration{"": 0, "urgent": 0, "humble": 25 * time.Second, "shared": 5 * time.Second, "equals": 15 * time.Second, "within": 0} {
			if facts, err := at(Settings{Account: "geo", QOS: level}).Probe(t.Context()); err != nil || facts.Preempted != last {
				t.Errorf("QOS %q: %+v, %v", level, facts, err)
			}
		}
		for level, last := range map[string]time.Duration{"equals": 15 * time.Second, "within": 0} {
			own := submitted(t, f, "--account=geo", "--qos="+level)
			testkit.Eventually(t, 30*time.Second, func() error { return stateIs(f, own, "RUNNING") })
			if facts, err := at(Settings{Job: own}).Probe(t.Context()); err != nil || facts.Preempted != last {
				t.Errorf("in an allocation of QOS %s: %+v, %v", level, facts, err)
			}
			first := submitted(t, f, "--account=geo", "--qos="+level, "--priority=4294901790") // more than any job has by itself
			if last > 0 {
				testkit.Eventually(t, 60*time.Second, func() error { return stateIs(f, own, "PREEMPTED") })
			} else if time.Sleep(5 * time.Second); stateIs(f, own, "RUNNING") != nil {
				t.Errorf("the job of QOS %s was ended", level)
			}
			f.Do("scancel", own, first) //nolint:errcheck // it may have ended
		}
		l := acquired(t, at(Settings{Slot: 5 * time.Minute, Account: "geo", QOS: "shared"}), want("shared"))
		waits(t, l, "")
		// The partition's own mode, OFF, does not count.
		if out, err := f.Do("srun", "--account=geo", "--qos=urgent", "--exclusive", "--mpi=none", "true"); err != nil {
			t.Error(err, out)
		}
		if s, err := l.Status(t.Context()); err != nil || s.Live || !strings.Contains(s.Reason, (&job{state: "PREEMPTED"}).ending()) {
			t.Errorf("%+v, %v", s, err)
		}
	})
	t.Run("for all jobs together", func(t *testing.T) {
		waits(t, acquired(t, at(Settings{Slot: time.Minute, Account: "chem"}), want("all")), "(AssocGrpCpuLimit)")
		forecast(t, at(Settings{Slot: time.Minute, Account: "chem"}), time.Time{}, "Slurm job ")
		forecast(t, at(Settings{Slot: time.Minute, Account: "phys"}), time.Now(), "")
	})
	t.Run("at once", func(t *testing.T) {
		_, err := at(Settings{Slot: 10 * time.Minute, Account: "math", QOS: "strict"}).Acquire(t.Context(), want("strict"))
		if !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "`sacctmgr show qos`") {
			t.Errorf("more time: %v, %s", err, core.Remedy(err))
		}
		p := at(Settings{Slot: time.Minute, Account: "art"})
		acquired(t, p, want("first"))
		if _, err = p.Acquire(t.Context(), want("second")); !core.IsKind(err, core.Busy) {
			t.Errorf("one job too many: %v", err)
		}
	})
}

// submitted is a job of the user's on all that there is, by its number.
func submitted(t *testing.T, f *slurmfarm.Farm, options ...string) string {
	t.Helper()
	out, err := f.Do(append([]string{"sbatch", "--parsable", "--exclusive", "--time=10", "--wrap='sleep 600'"}, options...)...)
	if err != nil {
		t.Fatal(err, out)
	}
	return strings.TrimSpace(out)
}

func stateIs(f *slurmfarm.Farm, job, want string) error {
	out, err := f.Do("squeue", "--noheader", "--states=all", "--format=%T", "--jobs="+job)
	if state := strings.TrimSpace(out); err == nil && state != want {
		err = fmt.Errorf("job %s is %s", job, state)
	}
	return err
}

// lost waits until Slurm is known never to start a lease's job.
func lost(t *testing.T, l driver.Lease, words string) {
	t.Helper()
	testkit.Eventually(t, 60*time.Second, func() error {
		w, err := l.Queue().Ready(t.Context())
		if core.IsKind(err, core.Lost) && strings.Contains(err.Error(), words) {
			return nil
		}
		return fmt.Errorf("%+v, %w", w, err)
	})
}
