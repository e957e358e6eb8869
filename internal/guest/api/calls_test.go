package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
)

func TestChecksOfCalls(t *testing.T) {
	for _, c := range []struct {
		name string
		v    interface{ Check() error }
		ok   bool
	}{
		{"a guest that is up", Hello{Kernel: "6.1"}, true},
		{"a negative time", Hello{Init: -1}, false},
		{"a long kernel", Hello{Kernel: strings.Repeat("x", 1<<20)}, false},
		{"a command", ExecRequest{Args: []string{"a"}}, true},
		{"no command", ExecRequest{}, false},
		{"started", ExecReply{}, true},
		{"not found", ExecReply{Code: 127, Message: "x"}, true},
		{"a code that there is not", ExecReply{Code: -1}, false},
		{"a long message", ExecReply{Code: 126, Message: strings.Repeat("x", 1<<20)}, false},
		{"a negative grace", StopRequest{-time.Second}, false},
		{"a directory", PutRequest{HeldDir + "/0"}, true},
		{"a directory above", PutRequest{HeldDir + "/../../etc"}, false},
		{"all that is held", PutRequest{HeldDir}, false},
		{"a directory elsewhere", GetRequest{Dir: "/etc"}, false},
		{"a directory that begins alike", GetRequest{Dir: HeldDir + "x/0"}, false},
		{"devices", Devices{RDMA: []core.RDMADevice{{Name: "rxe0", Ports: []core.RDMAPort{{Number: 1}}}}}, true},
		{"a device with a terminal's escapes", Devices{RDMA: []core.RDMADevice{{Name: "\x1b[2J"}}}, false},
		{"devices without number", Devices{RDMA: make([]core.RDMADevice, 1000)}, false},
		{"the broker of a node", BrokerRequest{1}, true},
		{"the broker of no node", BrokerRequest{-1}, false},
		{"statistics", core.VerbsPort{Processes: 1, Objects: core.VerbsObjects{QueuePairs: 1}, States: core.VerbsStates{RTS: 1}}, true},
		{"a count that cannot be added", core.VerbsPort{Wakes: 1 << 62}, false},
		{"queue pairs without a state", core.VerbsPort{Objects: core.VerbsObjects{QueuePairs: 1}}, false},
		{"files", GetReply{1}, true},
		{"a negative number of files", GetReply{-1}, false},
		{"output", TaskOutput{Pieces: []Piece{{Data: []byte("x")}}, Exit: &core.Exit{Code: 1}}, true},
		{"an exit that there is not", TaskOutput{Exit: &core.Exit{Code: 1000}}, false},
		{"too many pieces", TaskOutput{Pieces: make([]Piece, maxPieces+1)}, false},
		{"output before the first", TaskOutputRequest{-1}, false},
		{"a signal", TaskSignalRequest{15}, true},
		{"a signal that there is not", TaskSignalRequest{0}, false},
		{"a volume", VolumeState{Size: 1}, true},
		{"a negative volume", VolumeState{Size: -1}, false},
		{"a negative silence", VolumeState{Silent: -1}, false},
		{"a clock", ClockRequest{Now: time.Now()}, true},
		{"no clock", ClockRequest{}, false},
		{"a guest without a clock", AdoptRequest{}, false},
	} {
		if err := c.v.Check(); (err == nil) != c.ok || err != nil && !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// FuzzReplies: whatever a guest replies is refused or usable.
func FuzzReplies(f *testing.F) {
	for _, v := range []any{Hello{}, ExecReply{}, TaskOutput{Pieces: []Piece{{}}}, VolumeState{}, GetReply{}, core.Exit{}, core.VerbsPort{}} {
		raw, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if o, err := rpc.Decode[TaskOutput](raw); err == nil && o.Exit != nil && (o.Exit.Code < 0 || o.Exit.Code > 255) {
			t.Fatalf("%q passed", raw)
		}
		if r, err := rpc.Decode[ExecReply](raw); err == nil && r.Code < 0 {
			t.Fatalf("%q passed", raw)
		}
		if s, err := rpc.Decode[VolumeState](raw); err == nil && s.Silent < 0 {
			t.Fatalf("%q passed", raw)
		}
		if p, err := rpc.Decode[core.VerbsPort](raw); err == nil && p.Bytes.Forwarded < 0 {
			t.Fatalf("%q passed", raw)
		}
		rpc.Decode[Hello](raw)     //nolint:errcheck // it must end, no more
		rpc.Decode[core.Exit](raw) //nolint:errcheck // likewise
	})
}
