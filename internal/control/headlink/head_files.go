package headlink

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Files are those that a head leaves on its host, and what it was asked for.
type Files struct {
	Lease     driver.Lease
	Site, Run string // for messages
	Dir       string // the run's on this machine
	Attempt   int
	// NodesPerHost is how many nodes share a host, and the log of the first.
	NodesPerHost int
	// Guard calls a function in a goroutine of its own, whose panic it reports.
	Guard func(f func())
	Asked protocol.Asked
}

// Result reads the result that a head has left.
func (f *Files) Result(ctx context.Context) (*protocol.Result, error) {
	const name = "result.json"
	err := FetchFile(ctx, f.Lease, driver.Transfer{Remote: protocol.ResultPath(f.Lease.Hosts()[0].Dir), Local: filepath.Join(f.Dir, name)}, maxResult)
	if u, is := errors.AsType[InvalidReport](err); is {
		return nil, f.Invalid(u.error)
	}
	if err != nil {
		return nil, err
	}
	raw, err := fsutil.ReadFile(f.Dir, name, maxResult)
	if err != nil {
		return nil, err
	}
	var r protocol.Result
	if err := core.DecodeJSON(raw, &r); err != nil {
		return nil, err
	}
	return &r, f.Invalid(r.Check(f.Asked))
}

// Journal passes on the events in the head's journal until one is enough.
func (f *Files) Journal(ctx context.Context, enough func(protocol.Event) bool) error {
	local := filepath.Join(f.Dir, "events.jsonl")
	if err := FetchFile(ctx, f.Lease, driver.Transfer{Remote: protocol.EventsPath(f.Lease.Hosts()[0].Dir), Local: local}, maxJournal); err != nil {
		return err
	}
	file, err := os.Open(local)
	if err != nil {
		return err
	}
	defer file.Close()
	lines, before := bufio.NewScanner(file), int64(0)
	lines.Buffer(nil, maxLine)
	for lines.Scan() { // a last line may be torn
		var e protocol.Event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Check(f.Asked, before) != nil {
			continue
		}
		if before = e.Seq; enough(e) {
			return nil
		}
	}
	return lines.Err()
}

// Cases reads how cases of a pack stand, by the record that the head keeps in the volume.
func (f *Files) Cases(ctx context.Context) (map[int]protocol.CaseEnd, error) {
	volume := protocol.VolumeDir(f.Lease.Hosts()[0].Dir)
	t := driver.Transfer{Remote: path.Join(volume, protocol.CasesFile), Within: volume, Local: filepath.Join(f.Dir, "cases.jsonl")}
	if err := FetchFile(ctx, f.Lease, t, protocol.MaxCases); err != nil {
		return nil, err
	}
	file, err := os.Open(t.Local)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return protocol.ReadCases(file)
}

// MaxNodeError bounds the file of a node's error, in bytes.
const MaxNodeError = 64 << 10

// nodeError returns the error that the head has left, and whether there is one.
func (f *Files) nodeError(ctx context.Context) (failure rpc.Failure, is bool) {
	const name = "node-error.json"
	t := driver.Transfer{Remote: protocol.NodeErrorPath(f.Lease.Hosts()[0].Dir, 0), Local: filepath.Join(f.Dir, name)}
	if FetchFile(ctx, f.Lease, t, MaxNodeError) != nil {
		return failure, false
	}
	raw, err := fsutil.ReadFile(f.Dir, name, MaxNodeError)
	if err != nil || core.DecodeJSON(raw, &failure) != nil || failure.Message == "" {
		return failure, false
	}
	failure.Message, failure.Remedy = core.Printable(failure.Message, event.MaxText), core.Printable(failure.Remedy, event.MaxText)
	return failure, true
}
