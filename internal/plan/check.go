package plan

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Asked is what a head was asked for, as far as its words are checked against it.
type Asked struct {
	Nodes   int // of the attempt
	Outputs int // globs in Plan.Outputs
	// Checkpoint means that the plan has one.
	Checkpoint bool
	// Cases are the numbers of those that the plan has.
	Cases map[int]bool
	// Progress means that it is read from the output, and Metrics which metrics are.
	Progress bool
	Metrics  map[string]bool
}

// Bounds of what a head may say. All are far beyond what any head of ours says.
const (
	maxSeq      = 1 << 40
	maxSnapshot = 1 << 30
	maxBytes    = 1 << 60
	maxMatches  = 1 << 20
	maxLeft     = 1 << 10
	maxWord     = 40
	maxPath     = 64 << 10
	maxCores    = 1 << 20
	maxSpan     = 100 * 365 * 24 * time.Hour
	maxCPU      = 1<<63 - 1 // of all processes of a host
	maxMessage  = 16 << 10
	maxAddrs    = 256
)

// runtimeForm is the form of a runtime's name. The bound is not in the pattern: every start
// of bee would unfold it.
var runtimeForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_.+-]*$`)

const longestRuntime = 32

func isRuntime(name string) bool {
	return len(name) <= longestRuntime && runtimeForm.MatchString(name)
}

// refusal collects the first thing that is wrong.
type refusal struct{ err error }

func (r *refusal) unless(ok bool, format string, args ...any) {
	if !ok && r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// number refuses what is not within bounds.
func number[T ~int | ~int64](r *refusal, what string, got, least, most T) {
	r.unless(got >= least && got <= most, "%s is %v, expected %v to %v", what, got, least, most)
}

// moment refuses a time that no clock of today's shows. Zero means that it is not known.
func (r *refusal) moment(what string, t time.Time) {
	r.unless(core.IsMoment(t), "%s is %s, expected a time between 1970 and 2200", what, t.Format(time.RFC3339))
}

func (r *refusal) phase(p core.Phase) {
	r.unless(slices.Contains(core.Phases(), p), "phase is %q, expected one of %v", core.Printable(string(p), 40), core.Phases())
}

func (r *refusal) runtimes(names []string, asked Asked) {
	r.unless(len(names) <= asked.Nodes, "runtimes are %d, expected %d at most", len(names), asked.Nodes)
	for _, name := range names {
		r.unless(name == "" || isRuntime(name), "runtime is %q, expected a name", core.Printable(name, 40))
	}
}

// Check refuses an event that no head of ours would report after the one with the number
// before, and makes its texts printable.
func (e *Event) Check(asked Asked, before int64) error {
	var r refusal
	number(&r, "seq", e.Seq, before+1, maxSeq)
	r.moment("time", e.Time)
	if e.Phase != "" {
		r.phase(e.Phase)
	}
	number(&r, "snapshot", e.Snapshot, 0, maxSnapshot)
	r.unless(e.Snapshot == 0 || asked.Checkpoint, "there is a snapshot, and no checkpoint was asked for")
	number(&r, "bytes", e.Bytes, 0, maxBytes)
	number(&r, "rank", e.Rank, -1, asked.Nodes-1)
	number(&r, "done", e.Done, 0, maxBytes)
	number(&r, "total", e.Total, 0, maxBytes)
	number(&r, "waited", e.Waited, 0, maxSpan)
	r.runtimes(e.Runtimes, asked)
	e.Message = core.Printable(e.Message, maxMessage)
	if c := e.Case; c != nil {
		r.unless(asked.Cases[c.Number], "case is %d, expected one of the pack", c.Number)
		r.exit(c.Exit)
		r.unless(c.Kind == "" || core.KindNamed(c.Kind).String() == c.Kind, "kind of a case is %q, expected a kind of error", core.Printable(c.Kind, 40))
		c.Message = core.Printable(c.Message, maxMessage)
	}
	r.measured(e.Measured, asked)
	r.used(e.Used, asked)
	if r.err == nil && e.Result != nil {
		r.err = e.Result.Check(asked)
	}
	return r.refused("event")
}

// measured refuses numbers that no head of ours has read; JSON has no infinite ones.
func (r *refusal) measured(m *Measured, asked Asked) {
	if m == nil {
		return
	}
	r.unless(asked.Progress || m.Done == 0 && m.Total == 0, "there is progress, and none was asked for")
	r.unless(m.Done >= 0 && m.Done <= m.Total, "progress is %v of %v, expected 0 to the total", m.Done, m.Total)
	for name := range m.Metrics {
		r.unless(asked.Metrics[name], "metric is %q, expected one of the job", core.Printable(name, maxWord))
	}
}

// used refuses what no head of ours has gathered of its nodes.
func (r *refusal) used(u *Used, asked Asked) {
	if u == nil {
		return
	}
	r.unless(u.Seconds > 0 && u.Seconds <= maxSpan.Seconds(), "seconds of a sample are %v, expected up to %v", u.Seconds, maxSpan.Seconds())
	number(r, "nodes of a sample", u.Nodes, 1, asked.Nodes)
	number(r, "single nodes of a sample", len(u.Single), 0, min(asked.Nodes, MaxSingle))
	for i, of := range append([]core.Use{u.Mean, u.Least, u.Most}, u.Single...) {
		if i > 2 && len(of) == 0 { // the node did not answer
			continue
		}
		err := of.Check()
		r.unless(err == nil, "sample: %v", err)
	}
}

// Check refuses a result that no head of ours would report, and makes its texts printable.
func (r *Result) Check(asked Asked) error {
	var no refusal
	no.exit(r.Exit)
	no.unless(r.Kind == "" || core.KindNamed(r.Kind).String() == r.Kind, "kind is %q, expected a kind of error", core.Printable(r.Kind, 40))
	no.unless(!r.InSetup || r.Exit != nil, "setup has ended without an exit code")
	number(&no, "snapshot", r.Snapshot, 0, maxSnapshot)
	no.unless(asked.Checkpoint || !r.Continue && r.Snapshot == 0, "there is a checkpoint, and none was asked for")
	number(&no, "bytes", r.Bytes, 0, maxBytes)
	number(&no, "number of outputs", len(r.Outputs), 0, maxMatches)
	for _, o := range r.Outputs {
		number(&no, "index of an output", o.Index, 0, asked.Outputs-1)
		number(&no, "bytes of an output", o.Bytes, 0, maxBytes)
		number(&no, "length of an output's path", len(o.Path), 1, maxPath) // where it leads is for who fetches it to see
		number(&no, "length of the path of what travels", len(o.From), 0, maxPath)
	}
	no.answer(r.Answer)
	no.left(r.Left)
	no.runtimes(r.Runtimes, asked)
	number(&no, "number of nodes", len(r.Nodes), 0, asked.Nodes)
	seen := make(map[int]bool, len(r.Nodes))
	for i := range r.Nodes {
		no.node(&r.Nodes[i], asked, seen)
	}
	no.moment("start", r.Started)
	no.moment("end", r.Ended)
	for p, took := range r.Phases {
		no.phase(p)
		number(&no, "length of phase "+string(p), took, 0, maxSpan)
	}
	r.Message, r.Remedy = core.Printable(r.Message, maxMessage), core.Printable(r.Remedy, maxMessage)
	no.unless(r.Host == "" || core.IsHost(r.Host), "host is %q, expected a name", core.Printable(r.Host, 80))
	return no.refused("result")
}

// exit refuses what no process ends with; nil: it has not ended by itself.
func (r *refusal) exit(x *core.Exit) {
	if x != nil {
		number(r, "exit code", x.Code, 0, 255)
		number(r, "signal", x.Signal, 0, 64)
		r.use(x.UserTime, x.SystemTime, x.MaxRSS)
	}
}

// answer refuses what no job of ours has ended with.
func (r *refusal) answer(a core.Answer) {
	known := []core.Answer{"", core.AnswerWrote, core.AnswerDied, core.AnswerNothing}
	r.unless(slices.Contains(known, a), "answer is %q, expected one of %q", core.Printable(string(a), maxWord), known)
}

// left refuses a list that no head of ours reports of what stays in the volume.
func (r *refusal) left(list []LeftBehind) {
	number(r, "number of outputs that stay behind", len(list), 0, maxLeft)
	for i := range list {
		number(r, "length of the path of an output that stays behind", len(list[i].Path), 1, maxPath)
		list[i].Why = core.Printable(list[i].Why, maxWord)
	}
}

// node refuses what a node cannot have reported; seen are the ranks that have.
func (r *refusal) node(n *core.NodeReport, asked Asked, seen map[int]bool) {
	number(r, "rank of a node", n.Rank, 0, asked.Nodes-1)
	r.unless(!seen[n.Rank], "rank %d has reported twice", n.Rank)
	seen[n.Rank] = true
	r.unless(n.Host == "" || core.IsHost(n.Host), "host of node %d is %q, expected a name", n.Rank, core.Printable(n.Host, 80))
	if n.Addr != "" {
		_, err := netip.ParseAddr(n.Addr)
		r.unless(err == nil, "address of node %d is %q, expected one of IP", n.Rank, core.Printable(n.Addr, 80))
	}
	r.unless(n.Runtime == "" || isRuntime(n.Runtime), "runtime of node %d is %q, expected a name", n.Rank, core.Printable(n.Runtime, 40))
	number(r, "number of cores", n.Cores, 0, maxCores)
	n.MemoryUnlimited = core.Printable(n.MemoryUnlimited, maxMessage)
	err := core.CheckRDMA(n.RDMA)
	r.unless(err == nil, "RDMA devices of node %d: %v", n.Rank, err)
	err = n.Energy.Check()
	r.unless(err == nil, "energy of node %d: %v", n.Rank, err)
	n.VMCommand = core.Printable(n.VMCommand, core.MostVMCommand)
	r.use(n.UserTime, n.SystemTime, n.MaxRSS)
}

func (r *refusal) use(user, system time.Duration, rss int64) {
	number(r, "user time", user, 0, maxCPU)
	number(r, "system time", system, 0, maxCPU)
	number(r, "largest process", rss, 0, maxBytes)
}

// refused is the error of what someone has reported.
func (r *refusal) refused(what string) error {
	if r.err == nil {
		return nil
	}
	return &core.Error{Kind: core.Invalid, Op: "check", Object: what, Err: r.err}
}

// CheckAddresses refuses what are no addresses, ip:port, of a head.
func CheckAddresses(addrs []string) error {
	var r refusal
	number(&r, "number of addresses", len(addrs), 0, maxAddrs)
	for _, a := range addrs {
		at, err := netip.ParseAddrPort(a)
		r.unless(err == nil && at.Port() != 0, "address is %q, expected ip:port", core.Printable(a, 80))
	}
	return r.refused("addresses")
}
