package spec

import (
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	schema := validator(t, "beefile")
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "2h30m": 150 * time.Minute, "1.5h": 90 * time.Minute, "2d": 2 * day, "1.5d": 36 * time.Hour, "1d12h": 36 * time.Hour,
		"4:00:00": 4 * time.Hour, "30:00:00": 30 * time.Hour, "0:05:30": 5*time.Minute + 30*time.Second, "1-12": 36 * time.Hour, "1-12:30": day + 12*time.Hour + 30*time.Minute, "0-00:45:10": 45*time.Minute + 10*time.Second,
	} {
		j, err := ParseJob("f", []byte("image: a\ntime: "+text+"\n"), "/d")
		if err != nil || j.Time != want {
			t.Errorf("%s: %+v, %v", text, j, err)
		}
		if !schema("image: a\ntime: " + text + "\n") {
			t.Errorf("the schema refuses %s", text)
		}
	}
	var refused testkit.ErrorList
	for _, text := range []string{
		"30",
		"0",
		"4:00",
		"-5s",
		"soon",
		"d",
		"1e9d",
		"nand",
		"999999-00",
		"99999999999999h",
		"1-2-3",
		"1:2:3:4",
		"2d-1h",
		"10s",
	} {
		_, err := ParseJob("f", []byte("image: a\ntime: "+text+"\n"), "/d")
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", text, err)
		}
		refused.Add(text, err)
	}
	refused.Compare(t, "time")
}

func TestResources(t *testing.T) {
	j, err := ParseJob("f", []byte("image: a\ncores: 8\nmemory: 16G\n"), "/d")
	if err != nil || j.Cores != 8 || j.Memory != 16<<30 || j.Slots() != 8 || j.SlotsPerHost() != 8 || j.MemoryPerHost() != 16<<30 {
		t.Errorf("%+v, %v", j, err)
	}
	if j, err = ParseJob("f", []byte("image: a\ncores: 8\nmemory: 1G\nranks_per_node: 4\nnodes: 4\nvm: {per_host: 2}\n"), "/d"); err != nil || j.Slots() != 4 || j.SlotsPerHost() != 16 || j.MemoryPerHost() != 2<<30 {
		t.Errorf("two nodes on each host: %+v, %v", j, err)
	}
	var refused testkit.ErrorList
	for _, text := range []string{
		"memory: 16",
		"memory: 16 cups",
		"cores: -1",
		"cores: 8\nvm: {cpus: 4}",
		"ranks_per_node: 1\ncpus: 8",
		"mem: 8G",
		"walltime: 1:00:00",
	} {
		_, err := ParseJob("f", []byte("image: a\n"+text+"\n"), "/d")
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", text, err)
		}
		refused.Add(text, err)
	}
	refused.Compare(t, "resources")
}

func TestASiteWithinATime(t *testing.T) {
	s := Site{Name: "c", Slot: 4 * time.Hour, Slurm: &Slurm{MinSlot: time.Hour, Partition: "p"}}
	for limit, want := range map[time.Duration]Site{
		0:                s,
		8 * time.Hour:    s,
		2 * time.Hour:    {Slot: 2 * time.Hour, Slurm: &Slurm{MinSlot: time.Hour, Partition: "p"}},
		30 * time.Minute: {Slot: 30 * time.Minute, Slurm: &Slurm{Partition: "p"}},
	} {
		got := s.Within(limit)
		if got.Slot != want.Slot || got.Slurm.MinSlot != want.Slurm.MinSlot || got.Slurm.Partition != "p" {
			t.Errorf("%s: %+v with %+v", limit, got, got.Slurm)
		}
	}
	if s.Slurm.MinSlot != time.Hour {
		t.Error("the site itself has changed")
	}
	if got := (Site{}).Within(time.Minute); got.Slot != time.Minute {
		t.Errorf("a site without a slot: %s", got.Slot)
	}
}

func TestSlurmTime(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30": 30 * time.Minute, "30:10": 30*time.Minute + 10*time.Second, "4:00:00": 4 * time.Hour, "1-12": 36 * time.Hour, "1-12:30": day + 12*time.Hour + 30*time.Minute, "0-00:45:10": 45*time.Minute + 10*time.Second,
		"infinite": 0, "": 0, "1:2:3:4": 0, "-5": 0, "999999-00": 0,
	} {
		if got, ok := SlurmTime(text); ok != (want > 0) || ok && got != want {
			t.Errorf("%q: %s, %v, expected %s", text, got, ok, want)
		}
	}
}
