package rdma

import (
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

func TestCheckFunction(t *testing.T) {
	const locks = "proc/self/limits = Max locked memory         1073741824           1073741824           bytes"
	for _, c := range []struct {
		name, pci string
		more      []string
		shut      map[string]error
		memory    int64
		want      int // problems
	}{
		{name: "usable", memory: 1 << 40},
		{name: "within the limit", more: []string{locks}, memory: 960 << 20},
		{name: "memory not known", more: []string{locks}},
		{name: "beyond the limit", more: []string{locks}, memory: 961 << 20, want: 1},
		{name: "no such function", pci: "0000:81:00.7", want: 1},
		{name: "no IOMMU", more: []string{"sys/bus/pci/devices/0000:81:00.1/iommu_group"}, want: 1},
		{name: "the host's own", pci: "0000:81:00.0", want: 1},
		{name: "without a driver", more: []string{"sys/bus/pci/devices/0000:81:00.1/driver"}, want: 1},
		{name: "with one of the host's", more: []string{"sys/kernel/iommu_groups/28/devices/0000:81:00.0 -> x"}, want: 1},
		{name: "no right", shut: map[string]error{"/dev/vfio/28": unix.EACCES}, want: 1},
		{name: "another guest has it", shut: map[string]error{"/dev/vfio/28": unix.EBUSY}, want: 1},
		{name: "no module", shut: map[string]error{"/dev/vfio/vfio": unix.ENOENT}, want: 1},
	} {
		h := plant(t, "vfio", append([]string{unlimited}, c.more...)...)
		h.Open = func(path string) error { return c.shut[path] }
		pci := c.pci
		if pci == "" {
			pci = "0000:81:00.1"
		}
		problems := h.CheckFunction(pci, c.memory)
		if len(problems) != c.want {
			t.Errorf("%s: %+v, want %d", c.name, problems, c.want)
		}
		for _, p := range problems {
			if p.Text == "" || p.Remedy == "" {
				t.Errorf("%s: %+v lacks a text or a remedy", c.name, p)
			}
			testkit.Wording(t, c.name, p.Text+"\n"+p.Remedy, "group "+group(h.Root+"/dev/vfio/28")+",", "group GROUP,")
		}
	}
}

// TestFunctions are those of network cards, with what keeps guests from them.
func TestFunctions(t *testing.T) {
	h := plant(t, "vfio", unlimited)
	if got := h.Functions(); len(got) != 1 || got[0].PCI != "0000:81:00.1" || len(got[0].Problems) > 0 {
		t.Errorf("got %+v", got)
	}
	h.Open = func(string) error { return unix.EACCES }
	if got := h.Functions(); len(got) != 1 || len(got[0].Problems) != 1 {
		t.Errorf("without the right: got %+v", got)
	}
	if got := plant(t, "rxe").Functions(); len(got) > 0 {
		t.Errorf("on a host without: got %+v", got)
	}
}
