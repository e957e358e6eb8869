package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// HostsFile is the name of the file with Hosts.
const HostsFile = "hosts.json"

const maxHosts = 16 << 20

// Hosts are those of a series of measurements: of the machine on which bee ran, those that a
// site has granted for all of it, and what was measured on each.
type Hosts struct {
	Schema int  `json:"schema"`
	Here   Host `json:"here"`
	// Held are hosts that the study holds from its first measurement to its last.
	Held []HeldSite `json:"held,omitempty"`
	// Exercised are the environments that were measured, with their hosts.
	Exercised []Exercised `json:"exercised,omitempty"`
}

// Host describes the machine on which bee ran. Empty: not known.
type Host struct {
	Name string `json:"name,omitempty"`
	Boot string `json:"boot,omitempty"`
	// Kernel is its release, and CPU the model of the first processor.
	Kernel    string `json:"kernel,omitempty"`
	CPU       string `json:"cpu,omitempty"`
	Microcode string `json:"microcode,omitempty"`
	Cores     int    `json:"cores,omitempty"`
	// Governors are those of the processors' frequencies, each once.
	Governors []string `json:"governors,omitempty"`
	Turbo     string   `json:"turbo,omitempty"`
	SMT       string   `json:"smt,omitempty"`
	// Isolated are the cores that the kernel gives no other processes, or "none".
	Isolated string `json:"isolated,omitempty"`
	// NUMA are the nodes of memory, such as 0-1.
	NUMA      string `json:"numa,omitempty"`
	HugePages string `json:"huge_pages,omitempty"`
	// Mitigations are the kernel's, by vulnerability.
	Mitigations map[string]string `json:"mitigations,omitempty"`
	Cgroup      string            `json:"cgroup,omitempty"`
}

// HeldSite are hosts of a site.
type HeldSite struct {
	Site string `json:"site"`
	// Owner is what the site knows them by, as it does runs.
	Owner      string        `json:"owner"`
	Allocation string        `json:"allocation"`
	Hosts      []GrantedHost `json:"hosts"`
	// Ends is when the site takes them back; zero: never.
	Ends     time.Time `json:"ends,omitzero"`
	Released bool      `json:"released,omitempty"`
}

// GrantedHost is a host of a site, by its own words.
type GrantedHost struct {
	Name  string `json:"name"`
	Cores int    `json:"cores,omitempty"`
	Arch  string `json:"arch,omitempty"`
}

// Exercised is an environment that was measured on some hosts.
type Exercised struct {
	Environment string   `json:"environment"`
	Runtime     string   `json:"runtime,omitempty"`
	Hosts       []string `json:"hosts"`
	// VMCommand is the command line of QEMU, of the first measurement that has one.
	VMCommand string `json:"vm_command,omitempty"`
	// Measured are the measurements that were right, and Failed the others.
	Measured int       `json:"measured"`
	Failed   int       `json:"failed,omitempty"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

// ExercisedBy returns what rows have measured, in the order of the first of each.
func ExercisedBy(rows []Row) []Exercised {
	var all []Exercised
	for i := range rows {
		r := &rows[i]
		if r.Status == GivenUp {
			continue
		}
		at := slices.IndexFunc(all, func(e Exercised) bool {
			return e.Environment == r.Environment && e.Runtime == r.Runtime && slices.Equal(e.Hosts, r.Hosts)
		})
		if at < 0 {
			at, all = len(all), append(all, Exercised{Environment: r.Environment, Runtime: r.Runtime, Hosts: r.Hosts, First: r.Begin})
		}
		all[at].VMCommand = cmp.Or(all[at].VMCommand, r.VMCommand)
		if all[at].Last = r.Begin; r.Status == OK {
			all[at].Measured++
		} else {
			all[at].Failed++
		}
	}
	return all
}

// WriteHosts replaces the hosts in a directory of results.
func WriteHosts(dir string, h Hosts) error {
	h.Schema = Schema
	text, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	return fsutil.WriteFile(filepath.Join(dir, HostsFile), append(text, '\n'), 0o644)
}

// ReadHosts reads the hosts of a directory of results; none where an earlier bee has made it.
func ReadHosts(dir string) (Hosts, error) {
	var h Hosts
	text, err := fsutil.ReadFile(dir, HostsFile, maxHosts)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil {
		return h, fmt.Errorf("read %s in %s: %w", HostsFile, dir, err)
	}
	return h, nil
}
