package rdma

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// plant makes a tree of a file in testdata: lines of PATH = VALUE and PATH -> TARGET. Lines
// of more come after, and replace those of the same path; those without a value remove it.
func plant(t *testing.T, name string, more ...string) Host {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".tree"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, line := range append(strings.Split(strings.TrimSpace(string(raw)), "\n"), more...) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		path, value, is := strings.Cut(line, " =")
		path, target, link := strings.Cut(path, " -> ")
		at := filepath.Join(root, path)
		err := errors.Join(os.RemoveAll(at), os.MkdirAll(filepath.Dir(at), 0o755))
		switch {
		case link:
			err = errors.Join(err, os.Symlink(target, at))
		case is:
			err = errors.Join(err, os.WriteFile(at, []byte(strings.TrimSpace(value)+"\n"), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return Host{Root: root}
}

const unlimited = "proc/self/limits = Max locked memory         unlimited            unlimited            bytes"

func TestLook(t *testing.T) {
	for name, want := range map[string]Inventory{
		"mlx5": {
			Devices: []Device{
				{"mlx5_0", "mlx5_core", "/dev/infiniband/uverbs0", []Port{{1, "ACTIVE", "InfiniBand", 200e9}}},
				{"mlx5_1", "mlx5_core", "/dev/infiniband/uverbs1", []Port{{1, "DOWN", "InfiniBand", 10e9}}},
			},
			Nodes: []Node{{Path: "/dev/infiniband/uverbs0"}, {Path: "/dev/infiniband/uverbs1"}, {Path: "/dev/infiniband/rdma_cm"}, {Path: "/dev/xpmem"}},
		},
		"irdma": {
			Devices: []Device{{"rocep1s0f0", "ice", "/dev/infiniband/uverbs0", []Port{{1, "ACTIVE", "Ethernet", 100e9}}}},
			Nodes:   []Node{{Path: "/dev/infiniband/uverbs0"}, {Path: "/dev/infiniband/rdma_cm"}},
		},
		"hfi1": {
			Devices: []Device{{"hfi1_0", "hfi1", "/dev/infiniband/uverbs0", []Port{{1, "ACTIVE", "InfiniBand", 100e9}}}},
			Nodes:   []Node{{Path: "/dev/infiniband/uverbs0"}, {Path: "/dev/hfi1_0"}},
		},
		"efa": {
			Devices: []Device{{"rdmap0s6", "efa", "/dev/infiniband/uverbs0", []Port{{1, "ACTIVE", "Unspecified", 100e9}}}},
			Nodes:   []Node{{Path: "/dev/infiniband/uverbs0"}},
		},
		"rxe": {
			Devices: []Device{{"rxe0", "rdma_rxe", "/dev/infiniband/uverbs0", []Port{{1, "ACTIVE", "Ethernet", 25e8}}}},
			Nodes:   []Node{{Path: "/dev/infiniband/uverbs0"}, {Path: "/dev/infiniband/rdma_cm"}},
		},
	} {
		want.Locked = Unlimited
		got := plant(t, name, unlimited).Look()
		for i := range got.Nodes {
			if got.Nodes[i].Group == "" {
				t.Errorf("%s: the group of %s is not known", name, got.Nodes[i].Path)
			}
			got.Nodes[i].Group = ""
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, want)
		}
		if problems := got.Check(nil, false); len(problems) > 0 || got.Empty() {
			t.Errorf("%s: %+v", name, problems)
		}
	}
	report := plant(t, "rxe").Look().Report()
	if want := []core.RDMADevice{{Name: "rxe0", Driver: "rdma_rxe", Ports: []core.RDMAPort{{Number: 1, State: "ACTIVE", Link: "Ethernet", Rate: 25e8}}}}; !reflect.DeepEqual(report, want) {
		t.Errorf("got %+v, want %+v", report, want)
	}
}

// TestNodesWithoutADevice are no reason for a note.
func TestNodesWithoutADevice(t *testing.T) {
	h := plant(t, "mlx5", "sys", "dev/infiniband/uverbs0", "dev/infiniband/uverbs1")
	if got := h.Look(); !got.Empty() || len(got.Paths()) != 2 {
		t.Errorf("got %+v", got)
	}
	if got := plant(t, "mlx5", "sys").Look(); got.Empty() {
		t.Errorf("with devices of another namespace: %+v", got)
	}
}

// TestManyDevices are in the order of their numbers.
func TestManyDevices(t *testing.T) {
	h := plant(t, "efa", "dev/infiniband/uverbs10 =", "dev/infiniband/uverbs2 =", "dev/cxi0 =", "dev/cxi =", "dev/infiniband/uverbs3/directory =")
	if got, want := strings.Join(h.Look().Paths(), " "), "/dev/infiniband/uverbs0 /dev/infiniband/uverbs2 /dev/infiniband/uverbs3 /dev/infiniband/uverbs10 /dev/cxi0"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCheck(t *testing.T) {
	rdmaCore44 := &Libraries{Version: 44, Interface: 34, Providers: map[string][]int{"mlx5": {34}, "rxe": {34}}}
	for _, c := range []struct {
		name, tree string
		more       []string
		shut       map[string]error
		libraries  *Libraries
		ownLimits  bool
		want       int // problems
	}{
		{name: "one of two ports", tree: "mlx5", libraries: rdmaCore44},
		{
			name: "no port", tree: "mlx5", more: []string{"sys/class/infiniband/mlx5_0/ports/1/state = 2: INIT"},
			want: 2,
		},
		{name: "not a port", tree: "efa", more: []string{"sys/class/infiniband/rdmap0s6/ports"}, want: 1},
		{name: "no right", tree: "rxe", shut: map[string]error{"/dev/infiniband/uverbs0": unix.EACCES}, want: 1},
		{name: "kept away", tree: "rxe", shut: map[string]error{"/dev/infiniband/uverbs0": unix.EPERM}, want: 1},
		{name: "gone", tree: "rxe", shut: map[string]error{"/dev/infiniband/uverbs0": unix.ENXIO}, want: 1},
		{name: "no node", tree: "rxe", more: []string{"dev/infiniband/uverbs0"}, want: 1},
		{name: "no module", tree: "rxe", more: []string{"sys/class/infiniband_verbs", "dev/infiniband"}, want: 1},
		{name: "another namespace's", tree: "rxe", more: []string{"sys/class/infiniband", "sys/module/ib_core/parameters/netns_mode = N"}, want: 1},
		{name: "nothing", tree: "rxe", more: []string{"sys", "dev"}, want: 1},
		{name: "Slingshot", tree: "rxe", more: []string{"sys", "dev/infiniband", "dev/cxi0 ="}},
		{name: "Slingshot, no right", tree: "rxe", more: []string{"sys", "dev/infiniband", "dev/cxi0 ="}, shut: map[string]error{"/dev/cxi0": unix.EACCES}, want: 1},
		{name: "little memory", tree: "mlx5", more: []string{"proc/self/limits = Max locked memory         8388608              unlimited            bytes"}, want: 1},
		{name: "little memory of this process", tree: "mlx5", more: []string{"proc/self/limits = Max locked memory         8388608              unlimited            bytes"}, ownLimits: true},
		{name: "no provider", tree: "irdma", libraries: rdmaCore44, want: 1},
		{name: "before rdma-core", tree: "rxe", libraries: &Libraries{}, want: 1},
		{name: "provider of another", tree: "rxe", libraries: &Libraries{Version: 20, Interface: 19, Providers: map[string][]int{"rxe": {34}}}, want: 1},
		{name: "unknown driver", tree: "rxe", more: []string{"sys/class/infiniband/rxe0/parent"}, libraries: rdmaCore44},
	} {
		h := plant(t, c.tree, append([]string{unlimited}, c.more...)...)
		h.Open = func(path string) error { return c.shut[path] }
		found := h.Look()
		group := ""
		if len(found.Nodes) > 0 {
			group = found.Nodes[0].Group
		}
		problems := found.Check(c.libraries, c.ownLimits)
		if len(problems) != c.want {
			t.Errorf("%s: %+v, want %d", c.name, problems, c.want)
		}
		for i, p := range problems {
			if p.Text == "" || p.Remedy == "" {
				t.Errorf("%s: %+v lacks a text or a remedy", c.name, p)
			}
			testkit.Wording(t, fmt.Sprintf("%s, problem %d", c.name, i+1), p.Text+"\n"+p.Remedy, "group "+group+",", "group GROUP,")
		}
	}
}

func TestLibraries(t *testing.T) {
	made := func(files map[string]string) string {
		t.Helper()
		tree := t.TempDir()
		testkit.WriteFiles(t, tree, files)
		return tree
	}
	link := func(tree, name, target string) string {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(tree, name)); err != nil {
			t.Fatal(err)
		}
		return tree
	}
	for _, c := range []struct {
		name, tree string
		want       *Libraries
	}{
		{"none", made(nil), nil},
		{"Debian's", made(map[string]string{
			"usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0": "\x7fELF\x00%s/lib%s-rdmav34.so\x00", "usr/lib/x86_64-linux-gnu/libibverbs/libmlx5-rdmav34.so": "", "usr/lib/x86_64-linux-gnu/libibverbs/notes": "",
		}), &Libraries{44, 34, map[string][]int{"mlx5": {34}}}},
		{"two versions", made(map[string]string{
			"usr/lib64/libibverbs.so.1.8.28.0": "-rdmav25.so", "usr/lib64/libibverbs/librxe-rdmav25.so": "", "usr/lib64/libibverbs/librxe-rdmav34.so": "",
		}), &Libraries{28, 25, map[string][]int{"rxe": {25, 34}}}},
		{"old", made(map[string]string{"usr/lib64/libibverbs.so.1.0.0": ""}), &Libraries{0, 0, map[string][]int{}}},
		{"first of rdma-core", made(map[string]string{"usr/lib/libibverbs.so.1.1.13": ""}), &Libraries{13, 0, map[string][]int{}}},
		{"linked directory", link(made(map[string]string{"system/libibverbs.so.1.14.44.0": ""}), "lib", "/system"), &Libraries{44, 0, map[string][]int{}}},
		{"circle", link(made(nil), "lib", "lib"), nil},
		{"out of the image", link(made(map[string]string{"lib/other": ""}), "lib64", "../../../../../../usr"), nil},
		{"directory in place of the library", made(map[string]string{"lib/libibverbs.so.1.14.44.0/x": ""}), &Libraries{44, 0, map[string][]int{}}},
	} {
		got, err := LibrariesIn(c.tree)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	fifo := made(map[string]string{"lib/x": ""})
	if err := unix.Mkfifo(filepath.Join(fifo, "lib/libibverbs.so.1.14.44.0"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := LibrariesIn(fifo); err != nil || got.Interface != 0 {
		t.Errorf("a FIFO: %+v, %v", got, err)
	}
}

func TestRates(t *testing.T) {
	for text, want := range map[string]int64{"200 Gb/sec (4X HDR)": 200e9, "2.5 Gb/sec (1X SDR)": 25e8, "": 0, "fast": 0, "-1 Gb/sec": 0, "1e300 Gb/sec": 0, "1 Mb/sec": 0, "NaN Gb/sec": 0} {
		if got := rate(text); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
	for bits, want := range map[int64]string{200e9: "200 Gbit/s", 25e8: "2.5 Gbit/s"} {
		if got := RateText(bits); got != want {
			t.Errorf("%d: got %q, want %q", bits, got, want)
		}
	}
	testkit.Wording(t, "an unknown rate", RateText(0))
}
