// Package verbs tests verbs.so as programs meet it: what its file exports and needs, its
// rings under sanitizers, and stock programs over a broker.
package verbs

import (
	"bytes"
	"debug/elf"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/rdma/library"
	"github.com/bee-hpc/bee/internal/testkit"
)

// libc is what the library uses of the C library of the image: functions that every C
// library has, without versions.
var libc = []string{
	"__errno_location", "calloc", "free", "freeaddrinfo", "getaddrinfo", "getenv", "memcpy", "memset", "realloc",
	"strcpy", "strlen", "strncmp", "strstr",
}

// weak are functions without which it works too, with less.
var weak = []string{"__register_atfork", "pthread_atfork", "pthread_create", "pthread_join"}

// foreign are public functions of libibverbs that never see an object of ours: they
// convert numbers and structures, name values, or are for providers.
var foreign = []string{
	"ibv_copy_ah_attr_from_kern", "ibv_copy_path_rec_from_kern", "ibv_copy_path_rec_to_kern", "ibv_copy_qp_attr_from_kern",
	"ibv_dofork_range", "ibv_dontfork_range", "ibv_event_type_str", "ibv_get_sysfs_path", "ibv_node_type_str",
	"ibv_port_state_str", "ibv_rate_to_mbps", "ibv_rate_to_mult", "ibv_read_sysfs_file", "ibv_register_driver",
	"ibv_wc_status_str", "mbps_to_ibv_rate", "mult_to_ibv_rate",
}

// foreignCM are those of librdmacm: rsockets has none of our sockets.
var foreignCM = []string{
	"raccept", "rbind", "rclose", "rconnect", "rdma_event_str", "rfcntl", "rgetpeername", "rgetsockname", "rgetsockopt", "riomap", "riounmap",
	"riowrite", "rlisten", "rpoll", "rread", "rreadv", "rrecv", "rrecvfrom", "rrecvmsg", "rselect", "rsend", "rsendmsg", "rsendto", "rsetsockopt",
	"rshutdown", "rwrite", "rwritev",
}

func built(t *testing.T) library.Library {
	l, err := library.Get()
	if err != nil {
		testkit.Missing(t, "%v", err)
	}
	return l
}

func open(t *testing.T) *elf.File {
	f, err := elf.NewFile(bytes.NewReader(built(t).File))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLibraryIsFreestanding(t *testing.T) {
	f := open(t)
	if needed, err := f.DynString(elf.DT_NEEDED); err != nil || len(needed) > 0 {
		t.Errorf("it needs libraries: %q, %v", needed, err)
	}
	for _, tag := range []elf.DynTag{elf.DT_VERSYM, elf.DT_VERNEED, elf.DT_VERDEF, elf.DT_TEXTREL} {
		if v, err := f.DynValue(tag); err != nil || len(v) > 0 {
			t.Errorf("it has %v: %v, %v", tag, v, err)
		}
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		may := libc
		if elf.ST_BIND(s.Info) == elf.STB_WEAK {
			may = weak
		}
		if s.Section == elf.SHN_UNDEF && (!slices.Contains(may, s.Name) || s.Version != "") {
			t.Errorf("it uses %s %s of the C library", s.Name, s.Version)
		}
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_GNU_STACK && p.Flags&elf.PF_X != 0 {
			t.Error("its stack is executable")
		}
	}
}

func exported(t *testing.T) []string {
	symbols, err := open(t).DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	return names
}

func TestLibraryExportsVerbsAlone(t *testing.T) {
	names := exported(t)
	if len(names) < 50 {
		t.Fatalf("only %d functions: %q", len(names), names)
	}
	for _, n := range names {
		if !strings.HasPrefix(n, "ibv_") && !strings.HasPrefix(n, "_ibv_") && !strings.HasPrefix(n, "rdma_") && n != "rsocket" {
			t.Errorf("%s is exported", n)
		}
	}
}

// packaged returns the public functions of the newest version of a library on this machine.
func packaged(t *testing.T, library, version string) []string {
	raw, err := exec.Command("sh", "-c", `ldconfig -p 2>/dev/null || /sbin/ldconfig -p`).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if _, path, is := strings.Cut(strings.TrimSpace(line), " => "); is && strings.Contains(line, library+".so.1 ") {
			f, err := elf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			symbols, err := f.DynamicSymbols()
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, s := range symbols {
				if s.Section != elf.SHN_UNDEF && strings.HasPrefix(s.Version, version+"_1.") && !strings.HasPrefix(s.Name, version) {
					names = append(names, s.Name)
				}
			}
			slices.Sort(names)
			return slices.Compact(names)
		}
	}
	testkit.Missing(t, "%s is not installed", library)
	return nil
}

func TestEveryPublicFunctionIsThere(t *testing.T) {
	ours := exported(t)
	for _, tc := range []struct {
		library, version string
		least            int
		foreign          []string
	}{{"libibverbs", "IBVERBS", 60, foreign}, {"librdmacm", "RDMACM", 40, foreignCM}} {
		names := packaged(t, tc.library, tc.version)
		if len(names) < tc.least {
			t.Fatalf("%s has only %d public functions: %q", tc.library, len(names), names)
		}
		for _, n := range names {
			if !slices.Contains(ours, n) && !slices.Contains(tc.foreign, n) {
				t.Errorf("%s is neither implemented nor one that sees no object of ours", n)
			}
		}
		for _, n := range tc.foreign {
			if slices.Contains(ours, n) || !slices.Contains(names, n) {
				t.Errorf("%s need not be on the list", n)
			}
		}
	}
}
