package plan

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Event is one thing that happened in an attempt, for people and for records.
type Event struct {
	Seq   int64      `json:"seq"` // from 1, without gaps
	Time  time.Time  `json:"time"`
	Phase core.Phase `json:"phase,omitempty"`
	// Snapshot is the number of a copy of the volume that the head has kept.
	Snapshot int `json:"snapshot,omitempty"`
	// Bytes are in that copy; 0: they were not counted.
	Bytes int64 `json:"bytes,omitempty"`
	// Begin and End mark the bounds of Phase.
	Begin bool `json:"begin,omitempty"`
	End   bool `json:"end,omitempty"`
	// Rank of the node it concerns, -1 for none.
	Rank    int    `json:"rank"`
	Message string `json:"message,omitempty"`
	// Remark means that Message belongs in the run's history.
	Remark bool `json:"remark,omitempty"`
	// Done and Total, in bytes or nodes, for progress; or for how long what
	// Message reports has been waited for.
	Done   int64         `json:"done,omitempty"`
	Total  int64         `json:"total,omitempty"`
	Waited time.Duration `json:"waited,omitempty"`
	// SetupDone is set once when setup has ended with code 0.
	SetupDone bool `json:"setup_done,omitempty"`
	// Runtimes are those that have started the containers, by rank; set once all have.
	Runtimes []string `json:"runtimes,omitempty"`
	// Case reports that one of a pack has begun, or has ended.
	Case *CaseEnd `json:"case,omitempty"`
	// Measured are numbers that the job has printed.
	Measured *Measured `json:"measured,omitempty"`
	// Used is what the nodes have used for some seconds.
	Used *Used `json:"used,omitempty"`
	// Result is set on the last event.
	Result *Result `json:"result,omitempty"`
}

// Measured are the newest numbers that a job has printed. Without a Total there is no
// progress.
type Measured struct {
	Done    float64            `json:"done,omitempty"`
	Total   float64            `json:"total,omitempty"`
	Metrics map[string]float64 `json:"metrics,omitempty"`
}

// Used is what the nodes have used over some seconds. Single are the first ones by rank, at
// most MaxSingle; one that did not answer is empty.
type Used struct {
	Seconds float64    `json:"seconds"`
	Nodes   int        `json:"nodes"` // that have answered
	Mean    core.Use   `json:"mean"`
	Least   core.Use   `json:"least"`
	Most    core.Use   `json:"most"`
	Single  []core.Use `json:"single"`
}

// MaxSingle bounds the nodes that a Used has one by one.
const MaxSingle = 8

// CaseEnd is how a case of a pack stands.
type CaseEnd struct {
	Number int `json:"number"` // in its array
	// Exit is that of its last step; nil: it has begun, or Message is why it could not run.
	Exit    *core.Exit `json:"exit,omitempty"`
	Kind    string     `json:"kind,omitempty"`
	Message string     `json:"message,omitempty"`
	// Saved means that it has written its own checkpoint, and continues in another attempt.
	Saved bool `json:"saved,omitempty"`
}

// Failed reports whether the case has ended without success, and not because others had failed.
func (c CaseEnd) Failed() bool {
	return c.Exit != nil && c.Exit.Code != 0 || c.Exit == nil && c.Message != "" && !c.NotBegun()
}

// NotBegun reports whether the case has ended without beginning, as too many others had failed.
func (c CaseEnd) NotBegun() bool { return c.Kind == core.Stopped.String() }

// Ended reports whether the case has a result.
func (c CaseEnd) Ended() bool { return c.Exit != nil || c.Message != "" }

// MaxCases bounds what is read of a CasesFile, in bytes: a checkpoint may come from a store.
const MaxCases = 64 << 20

// ReadCases reads a CasesFile: how cases stand, by number.
func ReadCases(r io.Reader) (map[int]CaseEnd, error) {
	known := map[int]CaseEnd{}
	lines := bufio.NewReader(io.LimitReader(r, MaxCases))
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a torn line is of a case that runs again
			return known, nil
		}
		if err != nil {
			return nil, err
		}
		var end CaseEnd
		if json.Unmarshal(line, &end) == nil { // else it is empty, or was torn, as above
			known[end.Number] = end
		}
	}
}

// Result is how an attempt ended.
type Result struct {
	// Exit is the task's (or a failing setup's) own exit, nil when the task
	// did not end by itself.
	Exit *core.Exit `json:"exit,omitempty"`
	// Continue means that the task has written its checkpoint, and the run continues in
	// another attempt from what is in the volume now.
	Continue bool `json:"continue,omitempty"`
	// Answer is how the job ended after it was asked to write its checkpoint; "": it was not.
	Answer core.Answer `json:"answer,omitempty"`
	// Snapshot is the number of the copy that it continues from; 0: the volume.
	Snapshot int `json:"snapshot,omitempty"`
	// Bytes are in what it continues from; 0: they were not counted.
	Bytes int64 `json:"bytes,omitempty"`
	// SetupDone means that setup has ended with code 0 in this attempt. The
	// journal does too, as far as the disk had room for it.
	SetupDone bool `json:"setup_done,omitempty"`
	// InSetup means that Exit is setup's.
	InSetup bool `json:"in_setup,omitempty"`
	// InPost means that Exit is post's.
	InPost bool `json:"in_post,omitempty"`
	// Kind, Message and Remedy report why, where Exit is nil.
	Kind    string `json:"kind,omitempty"`
	Message string `json:"message,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	Host    string `json:"host,omitempty"` // the host at fault, if one is
	// TakenBack means that the site has given notice that it takes its hosts back. It
	// knows why, and nodes do not.
	TakenBack bool `json:"taken_back,omitempty"`
	// SlotEnded means that the time on the site was over.
	SlotEnded bool `json:"slot_ended,omitempty"`
	// Outputs are the files and directories that match Plan.Outputs.
	Outputs []OutputMatch `json:"outputs,omitempty"`
	// Left is what the outputs name and cannot leave the volume.
	Left []LeftBehind `json:"left,omitempty"`
	// Runtime that was used, by rank.
	Runtimes []string `json:"runtimes,omitempty"`
	// Nodes is what each node reported, by rank.
	Nodes []core.NodeReport `json:"nodes,omitempty"`
	// SharedVolume reports whether all hosts saw one volume.
	SharedVolume bool                         `json:"shared_volume"`
	Started      time.Time                    `json:"started"`
	Ended        time.Time                    `json:"ended"`
	Phases       map[core.Phase]time.Duration `json:"phases"`
}

// OutputMatch is one file or directory that an output glob matched.
type OutputMatch struct {
	// Index of the glob in Plan.Outputs.
	Index int `json:"index"`
	// Path is relative to the head's Host.Dir.
	Path string `json:"path"`
	// From is where what travels lies, likewise; "": at Path. They differ where Path is
	// a link, and where links below it lead to what does not travel.
	From string `json:"from,omitempty"`
	// Bytes are in its files; 0: none, or they were not counted.
	Bytes int64 `json:"bytes,omitempty"`
}

// LeftBehind is something that stays in the volume.
type LeftBehind struct {
	Path string `json:"path"` // in the container
	Why  string `json:"why"`  // a word of treesync.Why
}
