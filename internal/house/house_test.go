// Package house holds the rules of the house that a compiler does not: which
// package may import which.
package house

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/bee-hpc/bee/"

// allowed lists, for each room, the rooms of ours that it may import. The
// direction is core ← driver, spec ← implementations ← catalog ← cli; control
// knows interfaces only, drivers never each other.
func allowed() map[string][]string {
	return map[string][]string{
		"docs":                          {},
		"internal/core":                 {},
		"internal/tasklog":              {},
		"internal/chunk":                {},
		"internal/filestream":           {"internal/chunk", "internal/core", "internal/procid"},
		"internal/procid":               {"internal/core"},
		"internal/shell":                {},
		"internal/wire":                 {"internal/core"},
		"internal/checkpoint":           {"internal/core", "internal/filestream"},
		"internal/checkpoint/bucket":    {"internal/checkpoint", "internal/core", "internal/filestream"},
		"internal/leasedir":             {"internal/core", "internal/filestream"},
		"internal/spec":                 {"docs", "internal/core"},
		"internal/driver":               {"internal/core"},
		"internal/node/protocol":        {"internal/core"},
		"internal/node/client":          {"internal/core", "internal/fabric", "internal/filestream", "internal/filestream", "internal/node/protocol", "internal/tasklog", "internal/wire"},
		"internal/mpi":                  {"internal/core"},
		"internal/mpi/ranks":            {},
		"internal/mpi/rsh":              {"internal/core", "internal/node/client", "internal/wire"},
		"internal/state":                {"internal/core", "internal/node/protocol", "internal/procid"},
		"internal/image":                {"internal/core", "internal/filestream", "internal/image/debian", "internal/image/erofs", "internal/image/source", "internal/image/unpack", "internal/spec", "internal/wire"},
		"internal/image/debian":         {"internal/core", "internal/shell", "internal/spec"},
		"internal/image/erofs":          {},
		"internal/image/source":         {"internal/core"},
		"internal/image/unpack":         {"internal/core", "internal/filestream"},
		"internal/runtime/pid1":         {"internal/core", "internal/driver", "internal/wire"},
		"internal/gpu":                  {"internal/core"},
		"internal/runtime/rootless":     {"internal/core", "internal/driver", "internal/gpu", "internal/filestream", "internal/runtime/pid1"},
		"internal/runtime/docker":       {"internal/core", "internal/driver", "internal/runtime/pid1", "internal/runtime/command"},
		"internal/runtime/podman":       {"internal/core", "internal/driver", "internal/runtime/pid1", "internal/runtime/command"},
		"internal/runtime/charliecloud": {"internal/core", "internal/driver", "internal/filestream", "internal/runtime/pid1", "internal/runtime/command"},
		"internal/runtime/apptainer":    {"internal/core", "internal/driver", "internal/runtime/pid1", "internal/runtime/command"},
		"internal/runtime/command":      {"internal/core", "internal/driver", "internal/filestream", "internal/gpu", "internal/runtime/pid1"},
		"internal/emulate":              {"internal/core", "internal/procid"},
		"internal/provider/local":       {"internal/core", "internal/driver", "internal/emulate", "internal/filestream", "internal/leasedir", "internal/procid", "internal/wire"},
		"internal/provider/slurm":       {"internal/core", "internal/driver", "internal/filestream", "internal/leasedir", "internal/shell", "internal/wire"},
		"internal/provider/ssh":         {"internal/checkpoint", "internal/core", "internal/driver", "internal/filestream", "internal/procid", "internal/shell", "internal/wire"},
		"internal/node/execute":         {"internal/core", "internal/driver", "internal/node/client", "internal/runtime/pid1", "internal/wire"},
		"internal/fabric":               {"internal/core", "internal/fabric/vhost"},
		"internal/fabric/vhost":         {},
		"internal/node": {"internal/core", "internal/driver", "internal/fabric", "internal/filestream", "internal/mpi", "internal/mpi/ranks", "internal/node/client", "internal/node/execute",
			"internal/node/protocol", "internal/procid", "internal/runtime/pid1", "internal/tasklog", "internal/volume/dataimage", "internal/wire"},
		"internal/volume/dataimage": {"internal/core", "internal/filestream"},
		"internal/vm/agent":         {"internal/core", "internal/driver"},
		"internal/vm/guestimage":    {"internal/core", "internal/shell", "internal/spec"},
		"internal/vm/initrd":        {"internal/vm/agent"},
		"internal/vm/promise":       {},
		"internal/vm/qemu":          {"internal/core", "internal/vm/promise", "internal/wire"},
		"internal/vm/guest": {"internal/core", "internal/driver", "internal/filestream", "internal/node/client", "internal/node/execute", "internal/runtime/docker",
			"internal/runtime/pid1", "internal/vm/agent", "internal/wire"},
		"internal/vm": {"internal/core", "internal/driver", "internal/filestream", "internal/node/client", "internal/runtime/pid1", "internal/vm/agent", "internal/vm/initrd",
			"internal/vm/promise", "internal/vm/qemu", "internal/wire"},
		"internal/control": {"internal/checkpoint", "internal/core", "internal/driver", "internal/filestream", "internal/node/protocol", "internal/procid", "internal/spec", "internal/state",
			"internal/tasklog", "internal/vm/guestimage", "internal/volume/dataimage", "internal/wire"},
	}
}

// TestImportDirection fails when a package imports one that it must not know.
// The catalog, the command line, main and test support may import all.
func TestImportDirection(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	rules := allowed()
	free := map[string]bool{"cmd/bee": true, "internal/catalog": true, "internal/cli": true, "internal/testkit": true,
		"internal/driver/drivertest": true, "internal/checkpoint/checkpointtest": true, "internal/house": true}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		fields := strings.Fields(line)
		room := strings.TrimPrefix(fields[0], module)
		if free[room] || strings.HasPrefix(room, "test/") || strings.HasPrefix(room, "internal/testkit/") {
			continue
		}
		may, known := rules[room]
		if !known {
			t.Errorf("package %s has no rule: add one, saying what it may know", room)
			continue
		}
		for _, imported := range fields[1:] {
			other, ours := strings.CutPrefix(imported, module)
			if ours && !contains(may, other) {
				t.Errorf("%s must not import %s", room, other)
			}
		}
	}
}

func contains(list []string, word string) bool {
	for _, w := range list {
		if w == word {
			return true
		}
	}
	return false
}
