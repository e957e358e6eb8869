package emulate

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// process is one that the holder started.
type process struct {
	Proc
	done chan struct{} // closed when Exit is set
}

// keepEnded is the number of ended processes that Procs still reports.
const keepEnded = 1000

func (w *world) list() []Proc {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := append([]Proc{}, w.ended...)
	for _, p := range w.procs {
		out = append(out, p.Proc)
	}
	return out
}

// launch starts a detached process: input from the command, output to its log.
func (w *world) launch(h *host, c *Command) (int, error) {
	if c == nil || len(c.Argv) == 0 {
		return 0, &core.Error{Kind: core.Invalid, Err: errors.New("no command")}
	}
	log, err := fsutil.Append(c.Log, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	in, ours, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	p, err := w.start(h, c, in, log, log)
	if err != nil {
		_ = ours.Close()
		return 0, err
	}
	go func() {
		defer ours.Close()
		_, _ = ours.Write(c.Stdin)
	}()
	return p.PID, nil
}

// run starts a process with the client's own streams and waits for its end;
// it ends with the client's connection.
func (w *world) run(c *net.UnixConn, h *host, cmd *Command, files []*os.File) (*core.Exit, error) {
	if cmd == nil || len(cmd.Argv) == 0 || len(files) != 3 {
		return nil, &core.Error{Kind: core.Invalid, Err: errors.New("no command, or not three streams")}
	}
	p, err := w.start(h, cmd, files...)
	if err != nil {
		return nil, err
	}
	closeAll(files)
	gone := make(chan struct{})
	go func() {
		_, _ = c.Read(make([]byte, 1))
		close(gone)
	}()
	select {
	case <-p.done:
	case <-gone:
		_ = unix.Kill(-p.PID, unix.SIGKILL)
		<-p.done
	}
	return p.Exit, nil
}

func (w *world) start(h *host, c *Command, files ...*os.File) (*process, error) {
	path := c.Path
	var err error
	if path == "" {
		path, err = lookPath(c.Argv[0], c.Env)
	}
	if err != nil {
		return nil, &core.Error{Kind: core.NotFound, Op: "start", Object: c.Argv[0], Err: err}
	}
	dir := c.Dir
	if dir == "" {
		dir = "/"
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: c.Env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	p := &process{Proc: Proc{Host: h.index, Tag: c.Tag}, done: make(chan struct{})}
	// Held over the fork, so that reap finds the process in the map.
	w.mu.Lock()
	defer w.mu.Unlock()
	err = h.do(func() error {
		p.PID, err = syscall.ForkExec(path, c.Argv, attr)
		return err
	})
	if err != nil {
		return nil, &core.Error{Kind: core.KindOf(err), Op: "start", Object: c.Argv[0], Err: err}
	}
	w.procs[p.PID] = p
	return p, nil
}

func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	for _, dir := range filepath.SplitList(path) {
		full := filepath.Join(dir, name)
		if st, err := os.Stat(full); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", exec.ErrNotFound
}

// reap collects every process that ends: ours, and, as PID 1, the orphans.
func (w *world) reap() {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, unix.SIGCHLD)
	for {
		for w.reapOne() {
		}
		<-ch
	}
}

func (w *world) reapOne() bool {
	var status unix.WaitStatus
	var use unix.Rusage
	pid, err := unix.Wait4(-1, &status, unix.WNOHANG, &use)
	if errors.Is(err, unix.EINTR) {
		return true
	}
	if pid <= 0 {
		return false
	}
	if !status.Exited() && !status.Signaled() {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.procs[pid]
	if p == nil {
		return true
	}
	delete(w.procs, pid)
	p.Exit = &core.Exit{Code: status.ExitStatus(), UserTime: time.Duration(use.Utime.Nano()), SystemTime: time.Duration(use.Stime.Nano()), MaxRSS: use.Maxrss << 10}
	if status.Signaled() {
		p.Exit.Signal = int(status.Signal())
		p.Exit.Code = 128 + p.Exit.Signal
	}
	if w.ended = append(w.ended, p.Proc); len(w.ended) > keepEnded {
		w.ended = w.ended[1:]
	}
	close(p.done)
	return true
}

// kill kills everything on a host. A process belongs to it by its network
// namespace, or, if it made one of its own, by an ancestor's.
func (w *world) kill(h *host) error {
	for i := range 100 {
		pids, err := h.processes()
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(time.Duration(1+i) * time.Millisecond) // they are no children of ours: nothing reports their end
	}
	return &core.Error{Kind: core.Busy, Err: errors.New("some processes do not end")}
}

func (h *host) processes() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	mine, parent := map[int]bool{}, map[int]int{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == 1 {
			continue
		}
		state, ppid, err := stat(pid)
		if err != nil || state == 'Z' || state == 'X' {
			continue
		}
		parent[pid] = ppid
		var st unix.Stat_t
		if unix.Stat("/proc/"+name+"/ns/net", &st) == nil && st.Ino == h.inode {
			mine[pid] = true
		}
	}
	var out []int
	for pid := range parent {
		for p, ok := pid, true; ok && p > 1; p, ok = parent[p] {
			if mine[p] {
				out = append(out, pid)
				break
			}
		}
	}
	return out, nil
}

func stat(pid int) (state byte, ppid int, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	rest := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(rest) < 2 {
		return 0, 0, fs.ErrInvalid
	}
	ppid, err = strconv.Atoi(rest[1])
	return rest[0][0], ppid, err
}
