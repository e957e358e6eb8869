package pid1

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Times of the end: after TERM to all, KILL.
const (
	endGrace   = 2 * time.Second
	settleTime = 5 * time.Second
	// reportTime is how long the exits of the last processes may take to be reported.
	reportTime = time.Second
)

// server is a running init.
type server struct {
	mu        sync.Mutex // also held from fork to entry in processes
	processes map[int]chan core.Exit
	reports   sync.WaitGroup // processes whose exit was not reported yet
	end       chan struct{}
	endOnce   sync.Once
	meter     *meter
}

// Command is the argument by which the bee binary knows that it is the first process of a
// container. It is no word that people type.
const Command = "container-init"

// Main is that process: it serves the node that waits at the socket in the run directory
// (its last argument, by default /.bee/run) until the container has to end.
func Main(args []string) int {
	if len(args) > 1 && args[0] == As {
		code, err := as(args[1], args[2:])
		if err != nil {
			fmt.Fprintf(os.Stderr, "bee: first process of the container: %v\n", err)
		}
		return code
	}
	if err := Fresh(); err != nil {
		fmt.Fprintf(os.Stderr, "bee: first process of the container: %v\n", err)
		return 1
	}
	dir := "/.bee/run"
	if len(args) > 0 {
		dir = args[0]
	}
	c, err := arrive(dir)
	if err == nil {
		err = Serve(c)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bee: first process of the container: %v\n", err)
		return 1
	}
	return 0
}

// arrive connects with the node that waits for this init.
func arrive(dir string) (*net.UnixConn, error) {
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(dir, SocketName), Net: "unix"})
}

// Serve starts processes for the node at the other end of the connection that holds the
// container, until TERM comes, or that connection ends. Then all processes of the
// container are ended.
func Serve(node *net.UnixConn) error {
	// It is idle nearly always, and there is one on every host; but collecting
	// at once would cost short jobs time.
	small := time.AfterFunc(settleTime, func() {
		debug.SetGCPercent(20)
		debug.FreeOSMemory()
	})
	defer small.Stop()
	if err := limitCores(); err != nil {
		return err
	}
	s := &server{processes: map[int]chan core.Exit{}, end: make(chan struct{}), meter: newMeter()}
	defer s.meter.close()
	// Where the runtime gives no PID namespace, orphans shall still come to us.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper: %w", err)
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGCHLD, unix.SIGTERM, unix.SIGINT)
	Outlive()
	unix.Umask(umask)
	// What runs in the container is the same user. It may not read or trace this process,
	// nor reach by /proc/1/exe the program that this is: kernels before 6.13, and after
	// 6.10, let one write to a program that runs.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("shut /proc to others: %w", err)
	}
	go s.hold(node)
	for {
		select {
		case sig := <-signals:
			switch {
			case sig == unix.SIGCHLD:
				s.reap()
			case sig == unix.SIGTERM && os.Getenv(core.NoticeVariable) != "":
				// The node knows, and ends us when the job has written its checkpoint.
			default:
				s.stop()
			}
		case <-s.end:
			s.killAll(signals)
			s.awaitReports(reportTime)
			core.BestEffort(send(node, report{Exit: used()})) // a node that is gone needs no report
			return nil
		}
	}
}

func (s *server) stop() { s.endOnce.Do(func() { close(s.end) }) }

// awaitReports waits until the exits of all processes were reported: one may have ended just
// before the container did, and who waits for it would learn of that only.
func (s *server) awaitReports(most time.Duration) {
	all := make(chan struct{})
	go func() {
		s.reports.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(most):
	}
}

// reap collects all that have ended, children of ours or orphans.
func (s *server) reap() {
	for {
		var (
			status syscall.WaitStatus
			usage  syscall.Rusage
		)
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, &usage)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if !status.Exited() && !status.Signaled() {
			continue
		}
		s.mu.Lock()
		ended, ours := s.processes[pid]
		delete(s.processes, pid)
		s.mu.Unlock()
		if ours {
			ended <- exitOf(status, usage)
		}
	}
}

// used is what all processes of the container have used that were reaped.
func used() *core.Exit {
	var u syscall.Rusage
	if syscall.Getrusage(unix.RUSAGE_CHILDREN, &u) != nil {
		return &core.Exit{}
	}
	e := exitOf(0, u)
	return &e
}

func exitOf(status syscall.WaitStatus, u syscall.Rusage) core.Exit {
	e := core.Exit{Code: status.ExitStatus(), UserTime: time.Duration(u.Utime.Nano()), SystemTime: time.Duration(u.Stime.Nano()), MaxRSS: u.Maxrss * 1024}
	if status.Signaled() {
		e.Signal = int(status.Signal())
		e.Code = 128 + e.Signal
	}
	return e
}

// killAll ends every process that is a descendant of ours: TERM, and after the
// grace KILL, again and again, for they may fork.
func (s *server) killAll(signals <-chan os.Signal) {
	deadline := time.Now().Add(endGrace)
	signalAll(unix.SIGTERM)
	for hasChildren() {
		select {
		case <-signals:
		case <-time.After(20 * time.Millisecond):
		}
		s.reap()
		if time.Now().After(deadline) {
			signalAll(unix.SIGKILL)
		}
	}
}

// hasChildren reaps nothing.
func hasChildren() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return !errors.Is(err, unix.ECHILD)
}
