package head

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/testkit"
)

// All guests on a machine share its memory, of which each node saw a part taken.
func TestGuestsWantMemory(t *testing.T) {
	const gib = 1 << 30
	here, there := driver.Memory{Free: 4 * gib, All: 9 * gib}, driver.Memory{Free: 3 * gib, All: 9 * gib}
	for each, want := range map[int64]string{1 * gib: "", 2 * gib: "busy", 4 * gib: "busy", 5 * gib: "unsupported"} {
		all := choices{
			plan:   &plan.Plan{VM: &plan.VM{Memory: each}, Names: []string{"a", "b"}},
			infos:  []peercall.JoinRequest{{Machine: "m", Memory: here}, {Machine: "m", Memory: there}},
			nameOf: peercall.RankName,
		}
		err, kind := all.enoughMemory(), ""
		if err != nil {
			kind = core.KindOf(err).String()
		}
		if kind != want || err != nil && core.Remedy(err) == "" {
			t.Errorf("two guests of %d GiB each: %v, which is %q", each/gib, err, kind)
		}
		if want == "busy" != strings.Contains(core.Remedy(err), "`wait: ") {
			t.Errorf("two guests of %d GiB each: %q", each/gib, core.Remedy(err))
		}
	}
}

// Who holds what is wanted is named, where its end would help.
func TestWhoHoldsMemoryIsNamed(t *testing.T) {
	const mib = 1 << 20
	m := driver.Memory{Free: 100 * mib, All: 900 * mib, Reserved: []driver.Reserved{{Run: "old", Bytes: 700 * mib}}}
	if err := m.Enough("h", 1, 200*mib); !core.IsKind(err, core.Busy) || !strings.Contains(err.Error(), "run old ") || !strings.Contains(core.Remedy(err), "wait: ") {
		t.Errorf("it would fit: %v", err)
	}
	if err := m.Enough("h", 1, 1000*mib); !core.IsKind(err, core.Unsupported) || strings.Contains(err.Error(), "old") {
		t.Errorf("it would never fit: %v", err)
	}
}

// Machines that are only for hosts which run no containers are taken if one of them
// runs none, which is reported to people.
func TestMachinesAreTakenWhereAHostRunsNoContainers(t *testing.T) {
	for name, c := range map[string]struct {
		demand   bool
		reports  [2]string
		taken    bool
		reported bool
	}{
		"all run them":         {demand: true},
		"the second runs none": {demand: true, reports: [2]string{"", "no namespaces"}, taken: true, reported: true},
		"they are wanted":      {taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			events := filepath.Join(t.TempDir(), "events")
			j, err := journal.New(events)
			if err != nil {
				t.Fatal(err)
			}
			hs := &hosts{plan: &plan.Plan{VM: &plan.VM{OnDemand: c.demand}, Names: []string{"a", "b"}}, journal: j}
			for _, why := range c.reports {
				hs.infos = append(hs.infos, peercall.JoinRequest{NoRuntime: why})
			}
			hs.choices().decideVM()
			all := eventsOf(j)
			if (hs.plan.VM != nil) != c.taken || (len(all) == 1) != c.reported || len(all) > 1 {
				t.Fatalf("%+v, and reported %+v", hs.plan.VM, all)
			}
			if c.reported {
				testkit.Wording(t, "reported", all[0].Message)
			}
		})
	}
}

// All guests are attached in one way, which a word in the Beefile settles.
func TestOneHostWithoutRingsHasAllUseSockets(t *testing.T) {
	for name, c := range map[string]struct {
		printed, hinders, want string
	}{
		"open":             {"", "", fabric.Rings},
		"open, hindered":   {"", "no vhost-user", fabric.Sockets},
		"settled":          {fabric.Rings, "no vhost-user", fabric.Rings},
		"settled, sockets": {fabric.Sockets, "", fabric.Sockets},
	} {
		t.Run(name, func(t *testing.T) {
			events := filepath.Join(t.TempDir(), "events")
			j, err := journal.New(events)
			if err != nil {
				t.Fatal(err)
			}
			hs := &hosts{plan: &plan.Plan{VM: &plan.VM{NIC: c.printed}, Names: []string{"a", "b"}}, infos: []peercall.JoinRequest{{}, {NoRings: c.hinders}}, journal: j}
			hs.choices().decideNIC()
			all := eventsOf(j)
			if hs.plan.VM.NIC != c.want || (len(all) == 1) != (c.printed == "" && c.hinders != "") || len(all) > 1 {
				t.Fatalf("%s, and reported %+v", hs.plan.VM.NIC, all)
			}
			if len(all) == 1 {
				testkit.Wording(t, "reported", all[0].Message)
			}
		})
	}
}

// What a guest has is reported, not what its host has.
func TestAMembersCoresAreItsGuests(t *testing.T) {
	for want, vm := range map[int]*plan.VM{2: {CPUs: 2}, 7: {}, 6: {Sockets: 3, Threads: 2}, 8: {Sockets: 4, Threads: 2}} {
		hs := &hosts{plan: &plan.Plan{VM: vm, Names: []string{"a"}}, infos: []peercall.JoinRequest{{Cores: 7}}}
		members := hs.choices().members(nil)
		if members[0].Cores != want || members[0].Slots != want {
			t.Errorf("%+v: %+v", vm, members)
		}
	}
}

// TestWhoAsksForLinksInClearIsWarned, and only where there are any.
func TestWhoAsksForLinksInClearIsWarned(t *testing.T) {
	for _, c := range []struct {
		vm    plan.VM
		nodes int
		want  bool
	}{
		{plan.VM{}, 2, false},
		{plan.VM{Encryption: "tls"}, 2, false},
		{plan.VM{Encryption: plan.EncryptionNone}, 2, true},
		{plan.VM{Encryption: plan.EncryptionNone}, 1, false},
		{plan.VM{Encryption: plan.EncryptionNone, Fabric: fabric.None}, 2, false},
	} {
		j, err := journal.New(filepath.Join(t.TempDir(), "events"))
		if err != nil {
			t.Fatal(err)
		}
		hs := &hosts{plan: &plan.Plan{VM: &c.vm}, infos: make([]peercall.JoinRequest, c.nodes), journal: j}
		hs.choices().warnOfClear()
		all := eventsOf(j)
		if (len(all) == 1) != c.want || len(all) > 1 {
			t.Errorf("%+v with %d nodes: %+v", c.vm, c.nodes, all)
		} else if c.want {
			testkit.Wording(t, "warning", all[0].Message)
		}
	}
}

// An interior host that is lost takes the way to others along.
func TestALostHostTellsWhomItCutsOff(t *testing.T) {
	p := &plan.Plan{VM: &plan.VM{Fabric: fabric.Tree}, Names: []string{"a", "b", "c", "d", "e", "f"}}
	hs := &hosts{config: plan.Config{Size: 6}, plan: p, infos: make([]peercall.JoinRequest, 6)}
	if got := hs.lost(1).Error(); !strings.Contains(got, "d (node 3), e (node 4)") {
		t.Errorf("got %q", got)
	}
	if got := hs.lost(5).Error(); strings.Count(got, "(node ") > 1 {
		t.Errorf("a leaf: %q", got)
	}
}
