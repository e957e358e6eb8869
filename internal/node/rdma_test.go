package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rdma"
	"github.com/bee-hpc/bee/internal/testkit"
)

// ofTree is a cache with one image.
type ofTree struct {
	Images
	tree string
}

func (i ofTree) Tree(context.Context, string) (string, func(), error) { return i.tree, func() {}, nil }

// confined is a runtime of which only its devices and limits are known.
type confined struct {
	driver.Runtime
	devices, limits bool
}

func (c confined) Info() driver.Info {
	return driver.Info{Name: "theirs", OwnDevices: c.devices, OwnLimits: c.limits}
}

// hostWith makes a host of files by their paths, with RDMA as Linux shows it in sysfs.
func hostWith(t *testing.T, files map[string]string) rdma.Host {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		at := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return rdma.Host{Root: root}
}

// card is a host's software device on a port of a state.
func card(state string) map[string]string {
	return map[string]string{
		"sys/class/infiniband/rxe0/parent": "eth0", "sys/class/infiniband/rxe0/ports/1/state": "4: " + state, "sys/class/infiniband/rxe0/ports/1/link_layer": "Ethernet",
		"sys/class/infiniband/rxe0/ports/1/rate": "100 Gb/sec (4X EDR)", "sys/class/infiniband_verbs/uverbs0/ibdev": "rxe0",
		"dev/infiniband/uverbs0": "", "dev/infiniband/umad0": "", "dev/infiniband/rdma_cm": "",
	}
}

func TestRDMAOfAContainer(t *testing.T) {
	nodes := []driver.Device{{Source: "/dev/infiniband/uverbs0", Target: "/dev/infiniband/uverbs0"}, {Source: "/dev/infiniband/rdma_cm", Target: "/dev/infiniband/rdma_cm"}}
	device := core.RDMADevice{Name: "rxe0", Driver: "rdma_rxe", Ports: []core.RDMAPort{{Number: 1, State: "ACTIVE", Link: "Ethernet", Rate: 100e9}}}
	old := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(old, "usr/lib64"), 0o755), os.WriteFile(filepath.Join(old, "usr/lib64/libibverbs.so.1.8.28.0"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	little := card("ACTIVE")
	little["proc/self/limits"] = "Max locked memory         65536                65536                bytes"
	for name, c := range map[string]struct {
		plan    plan.Plan
		host    map[string]string
		rt      confined
		tree    string
		devices bool
		note    bool
		err     bool // of kind Unsupported, with a remedy
	}{
		"nothing there":              {rt: confined{devices: true}},
		"a device":                   {host: card("ACTIVE"), rt: confined{devices: true}, devices: true},
		"a device that is needed":    {plan: plan.Plan{RDMA: plan.RDMAHost}, host: card("ACTIVE"), rt: confined{devices: true}, devices: true},
		"one that is not wanted":     {plan: plan.Plan{RDMA: plan.RDMANone}, host: card("ACTIVE"), rt: confined{devices: true}},
		"which stays visible":        {plan: plan.Plan{RDMA: plan.RDMANone}, host: card("ACTIVE"), err: true},
		"none, and none is wanted":   {plan: plan.Plan{RDMA: plan.RDMANone}},
		"none, and one is needed":    {plan: plan.Plan{RDMA: plan.RDMAHost}, rt: confined{devices: true}, err: true},
		"no port":                    {host: card("DOWN"), rt: confined{devices: true}, devices: true, note: true},
		"no port, and it is needed":  {plan: plan.Plan{RDMA: plan.RDMAHost}, host: card("DOWN"), rt: confined{devices: true}, err: true},
		"an old image":               {host: card("ACTIVE"), rt: confined{devices: true}, tree: old, devices: true, note: true},
		"an old image, needed":       {plan: plan.Plan{RDMA: plan.RDMAHost}, host: card("ACTIVE"), rt: confined{devices: true}, tree: old, err: true},
		"little memory":              {host: little, rt: confined{devices: true}, devices: true, note: true},
		"the daemon's memory":        {host: little, rt: confined{devices: true, limits: true}, devices: true},
		"in a guest":                 {plan: plan.Plan{VM: &plan.VM{}}, host: card("ACTIVE")},
		"in a guest, needed":         {plan: plan.Plan{VM: &plan.VM{}, RDMA: plan.RDMAHost}, host: card("ACTIVE"), err: true},
		"in a guest, a function":     {plan: plan.Plan{VM: &plan.VM{}, RDMA: plan.RDMAHost, PCI: "0000:81:00.1"}},
		"in a guest, soft":           {plan: plan.Plan{VM: &plan.VM{}, RDMA: plan.RDMASoft}, host: card("ACTIVE")},
		"in a guest, BEE's":          {plan: plan.Plan{VM: &plan.VM{}, RDMA: plan.RDMABee}, host: card("ACTIVE"), tree: old},
		"for which the image is old": {plan: plan.Plan{VM: &plan.VM{}, RDMA: plan.RDMASoft}, tree: old, err: true},
		"in a guest, and not wanted": {plan: plan.Plan{VM: &plan.VM{}, RDMA: plan.RDMANone}, host: card("ACTIVE")},
	} {
		tree := c.tree
		if tree == "" {
			tree = t.TempDir()
		}
		k := &maker{options: Options{RDMA: hostWith(t, c.host), Log: slog.New(slog.DiscardHandler)}, images: ofTree{tree: tree}, plan: &c.plan}
		k.config.Host.Name = "h0"
		b, s := &container.Container{}, driver.ContainerSpec{}
		err := k.addRDMA(t.Context(), c.rt, b, &s)
		if c.err {
			if !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" || len(s.Devices) > 0 {
				t.Errorf("%s: %v, %q", name, err, core.Remedy(err))
			}
			testkit.Wording(t, name, testkit.ErrorText(err))
			continue
		}
		if err != nil || len(b.Notes) > 1 || c.note != (len(b.Notes) == 1) {
			t.Errorf("%s: %v, notes %q", name, err, b.Notes)
		}
		if c.note {
			testkit.Wording(t, name, strings.Join(b.Notes, "\n"))
		}
		if c.devices != (len(b.RDMA) == 1 && b.RDMA[0].Name == device.Name) || c.devices && !slices.Equal(s.Devices, nodes) || !c.devices && len(s.Devices) > 0 {
			t.Errorf("%s: devices %+v, nodes %+v", name, b.RDMA, s.Devices)
		}
		if name == "a device" && (b.RDMA[0].Driver != device.Driver || !slices.Equal(b.RDMA[0].Ports, device.Ports)) {
			t.Errorf("%s: got %+v, want %+v", name, b.RDMA[0], device)
		}
	}
}
