package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"golang.org/x/sys/unix"
)

// container is the container of one machine.
type container struct {
	machine *machine
	spec    driver.ContainerSpec
	volume  *Volume        // nil: a directory of the host
	mounts  []driver.Mount // as the guest has them
	login   string         // the account of the user outside
	stop    sync.Once
	used    atomic.Pointer[core.Exit] // what the container used, by the guest's word before its machine was ended
	rdma    atomic.Pointer[[]core.RDMADevice]
	brokers bool // its agent runs a broker of bee_0
	// freezing holds one while the volume is being frozen, is, and is being thawed.
	freezing chan struct{}
	// halts counts how often the machine was halted and continued: while it is
	// odd, no one can be expected to answer.
	halts atomic.Int64
}

// lost explains an error by the machine's end, where that is the reason.
func (c *container) lost(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-c.machine.Done():
		return &core.Error{Kind: core.Lost, Op: "use virtual machine", Object: c.spec.Name, Err: errors.New(c.Ended()), Remedy: "`bee logs --node NUMBER RUN` has the end of its console."}
	default:
		return err
	}
}

func call[Req, Resp any](ctx context.Context, c *container, m rpc.Method[Req, Resp], r Req) (Resp, error) {
	reply, err := rpc.Call(ctx, c.machine.containerAgent, m, r)
	return reply, c.lost(err)
}

// Exec implements driver.Container.
func (c *container) Exec(ctx context.Context, cmd driver.Command) (driver.Process, error) {
	return execute(c.machine.containerAgent, cmd)
}

// Guest implements driver.Container.
func (c *container) Guest() driver.Guest { return c }

// Use implements driver.Container. A halted guest does not answer.
func (c *container) Use(ctx context.Context) (core.Sample, error) {
	if c.halts.Load()%2 != 0 {
		return core.Sample{}, &core.Error{Kind: core.Transient, Op: "measure the container", Object: c.spec.Name, Err: errors.New("its virtual machine is halted"), Remedy: core.RemedyAgain}
	}
	return call(ctx, c, api.CallUse, rpc.None{})
}

// Memory implements driver.Container.
func (c *container) Memory() driver.MemoryLimit { return nil }

// Snapshot implements driver.Guest: the machine uses directories of the host.
func (c *container) Snapshot() driver.Snapshot { return nil }

// ExecInGuest implements driver.Guest.
func (c *container) ExecInGuest(_ context.Context, cmd driver.Command) (driver.Process, error) {
	return execute(c.machine.root, cmd)
}

// InGuest implements driver.Guest.
func (c *container) InGuest(target string) string {
	for _, m := range c.mounts {
		if m.Target == target {
			return m.Source
		}
	}
	return ""
}

// askDevices asks the guest for the devices that its container has.
func (c *container) askDevices(ctx context.Context) error {
	d, err := call(ctx, c, api.CallDevices, rpc.None{})
	if err == nil {
		c.rdma.Store(&d.RDMA)
	}
	return err
}

// RDMA implements driver.Guest.
func (c *container) RDMA() []core.RDMADevice {
	if list := c.rdma.Load(); list != nil {
		return *list
	}
	return nil
}

// maxConsole is the most that is given of a console.
const maxConsole = 1 << 20

// CommandLine implements driver.Guest.
func (c *container) CommandLine() []string { return c.machine.CommandLine() }

// Console implements driver.Guest.
func (c *container) Console() (string, error) { return readConsole(c.spec.StateDir) }

// BootConsole implements driver.VMRuntime.
func (r *Runtime) BootConsole(stateDir string) (string, error) { return readConsole(stateDir) }

func readConsole(dir string) (string, error) {
	raw, err := fsutil.Tail(dir, consoleName, maxConsole)
	return qemu.Plain(raw), err
}

// The console takes so much of the host's disk, in bytes, and is looked at so often: a
// guest, or a job in it, may write to it without end.
const (
	consoleLimit = 16 << 20
	consoleLook  = 2 * time.Second
)

// boundConsole keeps the console's file small until the machine has ended.
func (c *container) boundConsole() {
	for {
		select {
		case <-c.machine.Done():
			return
		case <-time.After(consoleLook):
			core.BestEffort(fsutil.Trim(c.spec.StateDir, consoleName, consoleLimit, maxConsole)) // tried again
		}
	}
}

// Login implements driver.Guest.
func (c *container) Login() string { return c.login }

// Ended implements driver.Guest.
func (c *container) Ended() string {
	printed := cmp.Or(c.machine.LastOutput(), "it printed nothing")
	if c.machine.Over() {
		printed = fmt.Sprintf("its QEMU ended (%v): %s", c.machine.State(), printed)
	}
	return printed
}

// watch ends a guest that answers nothing any more: nobody would notice else.
func (c *container) watch(silence time.Duration) {
	go c.boundConsole()
	for {
		select {
		case <-c.machine.Done():
			return
		case <-time.After(silence / 4):
		}
		halts := c.halts.Load()
		if halts%2 != 0 {
			continue
		}
		ctx, cancel := c.machine.within(context.Background(), silence, context.DeadlineExceeded)
		_, err := rpc.Call(ctx, c.machine.containerAgent, api.CallPing, rpc.None{})
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && c.halts.Load() == halts {
			c.machine.Note(fmt.Sprintf("the guest answered nothing for %v in which it could run, and was ended", silence))
			c.machine.Kill()
			return
		}
		if c.volumeIsGone(silence) {
			return
		}
	}
}

// describe reports how it stands in a guest that does not do what it should: by
// its own words, if it still has any, and its console.
func (c *container) describe() string {
	printed := make(chan string, 1)
	go func() {
		printed <- c.ask("ps axf -o pid,stat,wchan:20,time,args; tail -n 20 /run/dockerd.log /run/containerd.log")
	}() // it ends with the machine
	text := "it answers nothing"
	select {
	case text = <-printed:
	case <-time.After(stopTimeout):
	}
	return text + "\n" + c.machine.LastOutput()
}

// ask runs a shell script as the guest's root and gives what it says.
func (c *container) ask(script string) string {
	r, w, err := os.Pipe()
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	_, err = execute(c.machine.root, driver.Command{Args: []string{"sh", "-c", script}, Stdout: w, Stderr: w})
	w.Close()
	if err != nil {
		return err.Error()
	}
	text, _ := io.ReadAll(r)
	return string(text)
}

// execute has the guest start a process whose standard streams are ours.
func execute(peer *rpc.Peer, cmd driver.Command) (driver.Process, error) {
	r := api.ExecRequest{Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir}
	p := &process{done: make(chan struct{}), signals: make(chan os.Signal, 16), resized: make(chan [2]uint16, 1)}
	for i, f := range []*os.File{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		if f == nil {
			continue
		}
		own, err := duplicate(f) // the caller closes its own
		if err != nil {
			p.close()
			return nil, err
		}
		p.files[i] = own
	}
	if size := cmd.Terminal; size != nil {
		r.TTY, r.Rows, r.Cols = true, size.Rows, size.Cols
		p.terminal = newTerminal(p.resized, p.done)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, reply, err := rpc.Open(ctx, peer, api.CallExec, r)
	if err != nil {
		cancel()
		p.close()
		return nil, err
	}
	if reply.Code != 0 {
		s.Close()
		cancel()
		p.close()
		return nil, &pid1.StartError{Code: reply.Code, Message: reply.Message}
	}
	go func() {
		defer cancel()
		p.attend(s)
	}()
	return p, nil
}

// process is a process in a guest.
type process struct {
	files   [3]*os.File
	signals chan os.Signal
	resized chan [2]uint16
	done    chan struct{}
	exit    core.Exit
	err     error
	// terminal stands for the guest's; nil: there is none.
	terminal *terminal
}

// Terminal implements driver.Process.
func (p *process) Terminal() driver.Terminal {
	if p.terminal == nil {
		return nil
	}
	return p.terminal
}

func (p *process) attend(s *rpc.Stream) {
	defer p.close()
	defer s.Close()
	defer close(p.done)
	var in io.Reader
	out, errs := io.Writer(io.Discard), io.Writer(io.Discard)
	if p.files[0] != nil {
		in = p.files[0]
	}
	if p.files[1] != nil {
		out = lenient{p.files[1]}
	}
	if p.files[2] != nil {
		errs = lenient{p.files[2]}
	}
	if p.terminal != nil {
		in, out = p.terminal.typed, lenient{p.terminal.shown}
		defer p.terminal.end()
	}
	p.exit, p.err = client.Attend(s, p.resized, in, out, errs, p.signals)
	if p.err != nil && !core.IsKind(p.err, core.Lost) {
		p.err = &core.Error{Kind: core.Lost, Op: "wait for process in virtual machine", Err: p.err}
	}
}

// lenient takes what nobody reads any more: anyone who closes a pipe early gets
// his own program's SIGPIPE only on the host.
type lenient struct{ w io.Writer }

func (l lenient) Write(b []byte) (int, error) {
	core.BestEffort(l.w.Write(b))
	return len(b), nil
}

func (p *process) close() {
	for _, f := range p.files {
		if f != nil {
			f.Close()
		}
	}
}

// Signal implements driver.Process.
func (p *process) Signal(ctx context.Context, s os.Signal) error {
	select {
	case p.signals <- s:
	case <-p.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Wait implements driver.Process.
func (p *process) Wait(ctx context.Context) (core.Exit, error) {
	select {
	case <-p.done:
		return p.exit, p.err
	case <-ctx.Done():
		return core.Exit{}, context.Cause(ctx)
	}
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that Close ends a Read
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// Wait implements driver.Container.
func (c *container) Wait(ctx context.Context) (core.Exit, error) {
	ended := make(chan core.Exit, 1)
	go func() {
		if exit, err := rpc.Call(ctx, c.machine.containerAgent, api.CallWait, rpc.None{}); err == nil {
			ended <- exit
		}
	}()
	exit := core.Exit{}
	select {
	case exit = <-ended:
		c.settleVolume(ctx)
		c.machine.Kill() // it has nothing left to do
	case <-c.machine.Done():
		exit = core.Exit{Code: 137, Signal: int(syscall.SIGKILL)}
		if used := c.used.Load(); used != nil {
			exit = *used
		}
	case <-ctx.Done():
		return core.Exit{}, context.Cause(ctx)
	}
	if exit.MaxRSS > 0 { // the guest has reported what the container used
		return exit, nil
	}
	if u, ok := c.machine.State().SysUsage().(*syscall.Rusage); ok {
		exit.UserTime, exit.SystemTime, exit.MaxRSS = time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano()), u.Maxrss*1024
	}
	return exit, nil
}

// Stop implements driver.Container.
func (c *container) Stop(ctx context.Context, grace time.Duration) error {
	var err error
	c.stop.Do(func() {
		bounded, cancel := context.WithTimeout(ctx, grace+stopTimeout)
		defer cancel()
		_, err = rpc.Call(bounded, c.machine.containerAgent, api.CallStop, api.StopRequest{Grace: grace})
		if err == nil {
			if exit, err := rpc.Call(bounded, c.machine.containerAgent, api.CallWait, rpc.None{}); err == nil {
				c.used.Store(&exit)
			}
		}
		select {
		case <-c.machine.Done():
			err = nil
		default:
			c.settleVolume(ctx)
			c.machine.Kill()
		}
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = nil // what did not end in time has now
		}
	})
	return err
}

// stopTimeout is the time beyond the grace for docker's own clean-up.
const stopTimeout = 5 * time.Second
