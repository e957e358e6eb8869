package api

import (
	"fmt"
	"path"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
)

// Protocol is what a host and its guest speak over both ports.
var Protocol = rpc.Protocol{Name: "guest", Version: 2}

// Calls from the host on NodePort. A guest that is halted answers when it runs again, so
// none has a limit of its own.
var (
	CallHello   = rpc.Method[rpc.None, Hello]{Name: "hello", By: rpc.Host, Within: rpc.Unlimited}                                // answered once the guest is up
	CallStart   = rpc.Method[StartRequest, rpc.None]{Name: "start", By: rpc.Host, Request: rpc.LargeSize, Within: rpc.Unlimited} // answered once the container runs
	CallExec    = rpc.Method[ExecRequest, ExecReply]{Name: "exec", By: rpc.Host, Request: rpc.LargeSize, Within: rpc.Unlimited}  // then frames as in client.Exec
	CallStop    = rpc.Method[StopRequest, rpc.None]{Name: "stop", By: rpc.Host, Within: rpc.Unlimited}                           // answered once the container has ended
	CallWait    = rpc.Method[rpc.None, core.Exit]{Name: "wait", By: rpc.Host, Within: rpc.Unlimited}                             // answered when the container has ended
	CallPing    = rpc.Method[rpc.None, rpc.None]{Name: "ping", By: rpc.Host, Within: rpc.Unlimited}                              // answered at once
	CallDevices = rpc.Method[rpc.None, Devices]{Name: "devices", By: rpc.Host, Within: rpc.Unlimited}                            // answered at once
	CallUse     = rpc.Method[rpc.None, core.Sample]{Name: "use", By: rpc.Host, Within: rpc.Unlimited}                            // of the container
	CallPut     = rpc.Method[PutRequest, rpc.None]{Name: "put", By: rpc.Host, Within: rpc.Unlimited}                             // then a stream of files (treesync), and an rpc.Failure
	CallGet     = rpc.Method[GetRequest, GetReply]{Name: "get", By: rpc.Host, Request: rpc.LargeSize, Within: rpc.Unlimited}     // then a stream of the files
)

// The job's command runs by itself in a guest that may be brought up elsewhere:
// it depends on no connection.
var (
	CallTask       = rpc.Method[ExecRequest, ExecReply]{Name: "task", By: rpc.Host, Request: rpc.LargeSize, Within: rpc.Unlimited}             // answered once it runs
	CallTaskOutput = rpc.Method[TaskOutputRequest, TaskOutput]{Name: "task-output", By: rpc.Host, Reply: rpc.LargeSize, Within: rpc.Unlimited} // answered when there is some
	CallTaskSignal = rpc.Method[TaskSignalRequest, rpc.None]{Name: "task-signal", By: rpc.Host, Within: rpc.Unlimited}
)

// Calls about the broker of bee_0 that the agent runs. CallLink has it use a connection with the broker of another
// node, whose bytes follow. CallRenew has it ask for such a connection again, by CallAsk to its host.
var (
	CallLink  = rpc.Method[BrokerRequest, rpc.None]{Name: "link", By: rpc.Host, Within: rpc.Unlimited}
	CallRenew = rpc.Method[BrokerRequest, rpc.None]{Name: "renew", By: rpc.Host, Within: rpc.Unlimited}
	CallVerbs = rpc.Method[rpc.None, core.VerbsPort]{Name: "verbs", By: rpc.Host, Within: rpc.Unlimited}
	CallAsk   = rpc.Method[BrokerRequest, rpc.None]{Name: "ask", By: rpc.Guest}
)

// CallProgram comes from the guest: a program there uses the broker of its host. What follows are the frames of package
// relay.
var CallProgram = rpc.Method[rpc.None, rpc.None]{Name: "program", By: rpc.Guest}

// Calls from the host on RootPort, beside CallExec.
var (
	CallClock = rpc.Method[ClockRequest, rpc.None]{Name: "clock", By: rpc.Host, Within: rpc.Unlimited}
	// CallFreeze has all that was written to the volume be on its disk, and
	// further writes wait until CallThaw.
	CallFreeze = rpc.Method[rpc.None, rpc.None]{Name: "freeze", By: rpc.Host, Within: rpc.Unlimited}
	CallThaw   = rpc.Method[rpc.None, rpc.None]{Name: "thaw", By: rpc.Host, Within: rpc.Unlimited}
	CallVolume = rpc.Method[rpc.None, VolumeState]{Name: "volume", By: rpc.Host, Within: rpc.Unlimited}
	CallAdopt  = rpc.Method[AdoptRequest, rpc.None]{Name: "adopt", By: rpc.Host, Request: rpc.LargeSize, Within: rpc.Unlimited} // answered once the guest is what it says
)

// CallDial comes from the guest: the bytes that follow go to the node's own
// socket on the host, and come from it.
var CallDial = rpc.Method[rpc.None, rpc.None]{Name: "dial", By: rpc.Guest}

// Bounds of what a guest may say of itself.
const (
	maxText   = 16 << 10
	maxPieces = 1 << 16
	lastCode  = 255
	// LastSignal is the highest number of a signal.
	LastSignal = 64
)

func invalid(what string, value any) error {
	return &core.Error{Kind: core.Invalid, Op: "check", Object: what, Err: fmt.Errorf("%.200q is no valid value", fmt.Sprint(value)), Remedy: core.RemedyVersions}
}

// Check implements the check of package rpc.
func (h Hello) Check() error {
	if len(h.Kernel) > maxText || h.Init < 0 || h.Root < 0 || h.Docker < 0 {
		return invalid("greeting of a guest", h.Kernel)
	}
	return nil
}

// Check implements the check of package rpc.
func (r ExecRequest) Check() error {
	if len(r.Args) == 0 {
		return invalid("command", "")
	}
	return nil
}

// Check implements the check of package rpc.
func (r ExecReply) Check() error {
	if r.Code < 0 || r.Code > lastCode || len(r.Message) > maxText {
		return invalid("code of a command that did not start", r.Code)
	}
	return nil
}

// Check implements the check of package rpc.
func (r StopRequest) Check() error {
	if r.Grace < 0 {
		return invalid("grace", r.Grace)
	}
	return nil
}

// Check implements the check of package rpc.
func (d Devices) Check() error {
	if err := core.CheckRDMA(d.RDMA); err != nil {
		return invalid("RDMA devices of a guest", err)
	}
	return nil
}

// Check implements the check of package rpc.
func (r BrokerRequest) Check() error {
	if r.Rank < 0 {
		return invalid("node of a broker", r.Rank)
	}
	return nil
}

// Check implements the check of package rpc. Its Dir is in HeldDir.
func (r PutRequest) Check() error { return checkHeld(r.Dir) }

// Check implements the check of package rpc.
func (r GetRequest) Check() error { return checkHeld(r.Dir) }

func checkHeld(dir string) error {
	if dir != path.Clean(dir) || !strings.HasPrefix(dir, HeldDir+"/") {
		return invalid("directory in "+HeldDir, dir)
	}
	return nil
}

// Check implements the check of package rpc.
func (r GetReply) Check() error {
	if r.Files < 0 {
		return invalid("number of files", r.Files)
	}
	return nil
}

// Check implements the check of package rpc.
func (r TaskOutputRequest) Check() error {
	if r.From < 0 {
		return invalid("offset of output", r.From)
	}
	return nil
}

// Check implements the check of package rpc.
func (o TaskOutput) Check() error {
	if len(o.Pieces) > maxPieces {
		return invalid("number of pieces", len(o.Pieces))
	}
	if o.Exit != nil {
		return o.Exit.Check()
	}
	return nil
}

// Check implements the check of package rpc.
func (r TaskSignalRequest) Check() error {
	if r.Number < 1 || r.Number > LastSignal {
		return invalid("number of a signal", r.Number)
	}
	return nil
}

// Check implements the check of package rpc.
func (s VolumeState) Check() error {
	if s.Size < 0 || s.LeastFree < 0 || s.LeastFiles < 0 || s.Silent < 0 {
		return invalid("state of a volume", s.Size)
	}
	return nil
}

// Check implements the check of package rpc.
func (r ClockRequest) Check() error {
	if r.Now.IsZero() || r.CounterKHz < 0 {
		return invalid("clock", r.Now)
	}
	return nil
}

// Check implements the check of package rpc.
func (r AdoptRequest) Check() error { return r.Clock.Check() }
