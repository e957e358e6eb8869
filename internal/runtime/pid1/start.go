package pid1

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/terminal"
	"golang.org/x/sys/unix"
)

// serve handles one connection, for one process, to its end.
func (s *server) serve(c *net.UnixConn) {
	defer c.Close()
	in := &reader{c: c}
	var r request
	err := in.receive(&r)
	defer in.closeFiles()
	if err != nil {
		return
	}
	if len(r.Mounts) > 0 {
		answer := report{Started: true}
		if err := checkMounts(r.Mounts); err != nil {
			answer = report{Error: err.Error()}
		}
		core.BestEffort(send(c, answer)) // a client that is gone needs no answer
		return
	}
	if r.Sample {
		core.BestEffort(send(c, s.meter.sample())) // see above
		return
	}
	pid, ended, end, err := s.start(&r, in)
	if err != nil {
		core.BestEffort(send(c, report{Error: err.Error(), Code: codeOf(err)})) // see above
		return
	}
	defer s.reports.Done()
	var fds []int
	if end != nil {
		fds = append(fds, int(end.Fd()))
	}
	err = send(c, report{Started: true, PID: pid}, fds...)
	if end != nil {
		end.Close()
	}
	if err != nil {
		sendSignal(-pid, unix.SIGKILL) // nobody waits for it
		return
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			var o order
			if in.receive(&o) != nil {
				return
			}
			sendSignal(-pid, syscall.Signal(o.Signal))
		}
	}()
	select {
	case exit := <-ended:
		core.BestEffort(send(c, report{Exit: &exit})) // see above
	case <-gone: // the process that wanted it is gone: so shall it be
		sendSignal(-pid, unix.SIGKILL)
		<-ended
	}
}

// hold keeps the container alive until the node's connection ends, and serves the
// connections that come by it.
func (s *server) hold(node *net.UnixConn) {
	defer s.stop()
	if send(node, report{Started: true}) != nil {
		return
	}
	in := &reader{c: node}
	for {
		var r request
		if in.receive(&r) != nil {
			return
		}
		for _, fd := range in.fds {
			if c, err := connOf(fd); err == nil {
				go s.serve(c)
			}
		}
		in.fds = nil
	}
}

// start forks one process; where it asks for a terminal, its end is the caller's to close.
func (s *server) start(r *request, in *reader) (int, <-chan core.Exit, *terminal.End, error) {
	if r.Terminal == nil {
		files, err := openFiles(r, in)
		if err != nil {
			return 0, nil, nil, err
		}
		pid, ended, err := s.fork(r, files)
		return pid, ended, nil, err
	}
	end, program, err := terminal.Open(r.Terminal.Rows, r.Terminal.Cols)
	if err != nil {
		return 0, nil, nil, err
	}
	pid, ended, err := s.fork(r, []*os.File{program, program, program})
	if err != nil {
		end.Close()
		return 0, nil, nil, err
	}
	return pid, ended, end, nil
}

// fork starts one process with files as its standard streams, and closes them. The lock is
// held from fork to entry, so that the reaper finds every process that it reaps.
func (s *server) fork(r *request, files []*os.File) (int, <-chan core.Exit, error) {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	dir := r.Dir
	if dir == "" {
		dir = "/"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, nil, fmt.Errorf("working directory: %w", err)
	}
	if err := mayEnter(dir); err != nil {
		return 0, nil, err
	}
	path, err := lookPath(r.Args, r.Env, dir)
	if err != nil {
		return 0, nil, err
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: r.Env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	if r.Terminal != nil {
		attr.Sys.Setctty, attr.Sys.Ctty = true, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, err := syscall.ForkExec(path, r.Args, attr)
	if err != nil {
		return 0, nil, &startError{126, fmt.Errorf("%s: %w", r.Args[0], err)}
	}
	ended := make(chan core.Exit, 1)
	s.processes[pid] = ended
	s.reports.Add(1)
	return pid, ended, nil
}

// mayEnter says of a directory what a fork would of the program, which starts there.
func mayEnter(dir string) error {
	if err := unix.Access(dir, unix.X_OK); err != nil {
		return &startError{126, fmt.Errorf("the working directory %s cannot be entered: %w (`workdir:` names another)", dir, err)}
	}
	return nil
}

// openFiles gives stdin, stdout and stderr: what came along, else /dev/null.
func openFiles(r *request, in *reader) ([]*os.File, error) {
	var files []*os.File
	for _, given := range r.Files {
		if given && len(in.fds) > 0 {
			files = append(files, os.NewFile(uintptr(in.fds[0]), "stdio"))
			in.fds = in.fds[1:]
			continue
		}
		f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// startError is a failed start with the exit code that shells give it.
type startError struct {
	code int
	err  error
}

func (e *startError) Error() string { return e.err.Error() }

func codeOf(err error) int {
	if e, ok := errors.AsType[*startError](err); ok {
		return e.code
	}
	return 126
}

// lookPath finds the program in the PATH of its own environment.
func lookPath(args, env []string, dir string) (string, error) {
	if len(args) == 0 || args[0] == "" {
		return "", &startError{127, errors.New("no command given")}
	}
	name := args[0]
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	var denied error
	for _, d := range filepath.SplitList(pathOf(env)) {
		p := filepath.Join(d, name)
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		err := executable(p)
		if err == nil {
			return p, nil
		}
		if codeOf(err) == 126 {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", &startError{127, fmt.Errorf("%s: not found in the container's PATH (%s)", name, pathOf(env))}
}

// shell is what commands go to that are strings.
const shell = "/bin/sh"

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && path == shell:
		return &startError{127, errors.New("the image has no " + shell + ", which runs commands that are written as one string: write this one as a list, such as [/app, --flag]")}
	case errors.Is(err, os.ErrNotExist):
		return &startError{127, fmt.Errorf("%s: no such file in the container", path)}
	case err != nil:
		return &startError{126, err}
	case info.IsDir() || info.Mode()&0o111 == 0:
		return &startError{126, fmt.Errorf("%s: not an executable file", path)}
	}
	return nil
}

func pathOf(env []string) string {
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, e := range env {
		if p, ok := strings.CutPrefix(e, "PATH="); ok {
			path = p
		}
	}
	return path
}
