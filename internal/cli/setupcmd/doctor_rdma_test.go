package setupcmd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/rdma"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestDoctorListsRDMADevices with ports and rates, and what keeps programs from them.
func TestDoctorListsRDMADevices(t *testing.T) {
	port := rdma.Port{Number: 1, State: "ACTIVE", Link: "InfiniBand", Rate: 200e9}
	host := rdma.Inventory{
		Devices: []rdma.Device{{Name: "mlx5_0", Driver: "mlx5_core", Node: "/dev/infiniband/uverbs0", Ports: []rdma.Port{port}}},
		Nodes:   []rdma.Node{{Path: "/dev/infiniband/uverbs0", Group: "rdma"}}, Locked: rdma.Unlimited,
	}
	shut := host
	shut.Nodes = []rdma.Node{{Path: "/dev/infiniband/uverbs0", Group: "rdma", Err: unix.EACCES}}
	for name, c := range map[string]struct {
		host rdma.Inventory
		want []string // the words that each line begins with
	}{
		"none":         {rdma.Inventory{Nodes: []rdma.Node{{Path: "/dev/infiniband/rdma_cm"}}}, nil},
		"usable":       {host, []string{"ok device RDMA mlx5_0 "}},
		"no right":     {shut, []string{"! device RDMA mlx5_0 ", "! device RDMA ", "→ "}},
		"no card":      {rdma.Inventory{Nodes: []rdma.Node{{Path: "/dev/infiniband/uverbs0"}}}, []string{"! device RDMA ", "→ "}},
		"of Slingshot": {rdma.Inventory{Nodes: []rdma.Node{{Path: "/dev/cxi0"}}}, []string{"ok device RDMA /dev/cxi0"}},
	} {
		var out strings.Builder
		d := diagnosis{Runtime: "rootless"}
		d.addRDMA(c.host)
		if err := New(workspace.New(&out, nil, "")).writeDiagnosis(d); err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(out.String(), "\nruntime:")
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if c.want == nil {
			if text != "" || d.RDMA != nil {
				t.Errorf("%s: %q", name, text)
			}
			continue
		}
		if len(lines) != len(c.want) {
			t.Errorf("%s: got %q, want %q", name, lines, c.want)
			continue
		}
		for i, line := range lines {
			if !strings.HasPrefix(strings.Join(strings.Fields(line), " "), c.want[i]) {
				t.Errorf("%s: got %q, want %q", name, line, c.want[i])
			}
		}
		testkit.Wording(t, name, text)
	}
	var d diagnosis
	d.addFunctions([]rdma.Function{{PCI: "0000:81:00.1"}, {PCI: "0000:81:00.2", Problems: []rdma.Problem{{Text: "no right", Remedy: "Join."}}}})
	if f := d.Findings; len(f) != 2 || f[0].Status != works || f[1].Status != risky || f[1].Remedy != "Join." {
		t.Errorf("functions of a card: %+v", f)
	}
	d = diagnosis{}
	d.addRDMA(host)
	raw, err := json.Marshal(d)
	if want := `"rdma":[{"name":"mlx5_0","driver":"mlx5_core","ports":[{"number":1,"state":"ACTIVE","link_layer":"InfiniBand","bits_per_second":200000000000}]}]`; err != nil || !strings.Contains(string(raw), want) {
		t.Errorf("got %s, %v, want %s", raw, err, want)
	}
}
