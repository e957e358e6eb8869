package slurm

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/wire"
)

// The files in a lease's directory.
const (
	detailsName  = "lease.json"   // written when the job is submitted
	grantedName  = "granted.json" // written when its nodes are there
	keysName     = "keys.json"
	scriptName   = "job.sh"
	logName      = "job.log"
	draftName    = "orders.new"  // what to start without a controller, not in force
	specName     = "orders.json" // the same in force
	startedName  = "started"     // made when nodes are started, by anyone
	attendedName = "attended"    // all is there, and anyone who asked for the nodes will start them
	missedName   = "missed"      // the nodes were released as nobody used them
	hopeName     = "hope"        // touched while files are still being brought
	verdictName  = "verdict"     // why the agents gave the nodes back, for people
	binaryName   = "bee"
	releasedName = "released" // the job shall end
	hostsDir     = "hosts"    // what the agents say of themselves
)

// details are what is known of a lease whose job was submitted.
type details struct {
	// Job is Slurm's number of it.
	Job string `json:"job"`
	// Own is false where the job is the user's, who ends it.
	Own bool `json:"own"`
	// Restarts is how often Slurm had requeued a job of the user's when bee began its step;
	// the steps of each start have the same numbers. "": not known, or the job is bee's own.
	Restarts string `json:"restarts,omitempty"`
	Nodes    int    `json:"nodes"`
	Dir      string `json:"dir"` // the run's directory
}

// terms are what is known of a lease once its nodes are there.
type terms struct {
	Hosts    []core.Host `json:"hosts"`
	Deadline time.Time   `json:"deadline,omitzero"`
	// Agents are where each host's agent listens, and Step the job's step that
	// they make up.
	Agents [][]string `json:"agents"`
	Step   string     `json:"step"`
	// Since is when the nodes were granted.
	Since time.Time `json:"since,omitzero"`
}

// keys are those of a lease: for its agents, and for who speaks with them.
type keys struct {
	CA         []byte `json:"ca"`
	AgentCert  []byte `json:"agent_cert"`
	AgentKey   []byte `json:"agent_key"`
	ClientCert []byte `json:"client_cert"`
	ClientKey  []byte `json:"client_key"`
}

// The names in the certificates of a lease.
const (
	agentName  = "agent"
	clientName = "client"
)

func writeKeys(dir string) error {
	a, err := wire.NewAuthority()
	if err != nil {
		return err
	}
	k := keys{CA: a.Certificate()}
	if k.AgentCert, k.AgentKey, err = a.Issue(agentName); err != nil {
		return err
	}
	if k.ClientCert, k.ClientKey, err = a.Issue(clientName); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, keysName), k)
}

// writeJSON writes a file that only the user can read, whole or not at all.
func writeJSON(path string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return fsutil.WriteFile(path, raw, 0o600)
}

// mostRecord bounds a file of a lease's, in bytes. Those of the largest cluster are smaller.
const mostRecord = 64 << 20

func readJSON(path string, into any) error {
	raw, err := fsutil.ReadFile(filepath.Dir(path), filepath.Base(path), mostRecord)
	if err != nil {
		return err
	}
	return core.DecodeJSON(raw, into)
}

// readIfThere is readJSON for a file that may not be there. With an error it is not known
// what is in it; what nobody can read is as if it were not there.
func readIfThere(path string, into any) (there bool, err error) {
	raw, err := fsutil.ReadFile(filepath.Dir(path), filepath.Base(path), mostRecord)
	if errors.Is(err, fs.ErrNotExist) || fsutil.Spoiled(err) {
		return false, nil
	}
	if err != nil {
		return false, &core.Error{Kind: core.Transient, Op: "read", Object: path, Err: err, Remedy: "Is the file system of the site's `scratch` mounted, and does it answer?"}
	}
	return core.DecodeJSON(raw, into) == nil, nil
}
