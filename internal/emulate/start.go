package emulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/procid"
	"golang.org/x/sys/unix"
)

// Start makes the hosts and gives a client of their holder. When it fails
// nothing is left but files in s.Dir. Unsupported, with a remedy, where the
// system forbids it.
func Start(ctx context.Context, s Spec) (*Client, error) {
	h, err := startHolder(s)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = h.cmd.Process.Kill() })
	defer stop()
	c, err := h.begin(s)
	if err != nil {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
		if ctx.Err() != nil {
			err = &core.Error{Kind: core.Stopped, Op: "start emulated hosts", Err: ctx.Err()}
		}
		return nil, err
	}
	go func() { _ = h.cmd.Wait() }() // else it stays a zombie as long as we live
	return c, nil
}

// holder is a holder process being started.
type holder struct {
	cmd   *exec.Cmd
	spec  io.WriteCloser
	ready *os.File
}

func startHolder(s Spec) (*holder, error) {
	log, err := fsutil.Append(LogPath(s.Dir), 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ready, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	binary := s.Binary
	if binary == "" {
		binary = "/proc/self/exe"
	}
	cmd := exec.Command(binary, HolderArg, s.Dir) //nolint:noctx // it outlives us
	cmd.Args[0] = "bee"
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{theirs}
	if cmd.SysProcAttr, err = namespaces(); err != nil {
		ready.Close()
		return nil, err
	}
	if s.DieWithCaller {
		cmd.SysProcAttr.Pdeathsig = unix.SIGKILL
	}
	spec, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		ready.Close()
		return nil, forbidden(err)
	}
	return &holder{cmd, spec, ready}, nil
}

// begin records the holder before it lets it do anything, so that a crash in
// between leaves either a record or a holder that ends at once.
func (h *holder) begin(s Spec) (*Client, error) {
	defer h.ready.Close()
	defer h.spec.Close()
	id, err := procid.Of(h.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(s.Dir, recordName), []byte(id.String()), 0o600); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(h.spec).Encode(s); err != nil {
		return nil, h.died(s, err)
	}
	h.spec.Close()
	var r reply
	if err := json.NewDecoder(h.ready).Decode(&r); err != nil {
		return nil, h.died(s, err)
	}
	if err := r.err("start emulated hosts"); err != nil {
		return nil, forbidden(err)
	}
	return &Client{dir: s.Dir, id: id, hosts: r.Hosts, notes: r.Notes}, nil
}

func (h *holder) died(s Spec, err error) error {
	text, _ := os.ReadFile(LogPath(s.Dir))
	text = bytes.TrimSpace(text[max(0, len(text)-2000):])
	return &core.Error{Op: "start emulated hosts", Err: fmt.Errorf("their holder ended: %w: %s", err, text)}
}

// namespaces gives the holder all the namespaces that belong to a host's
// world. An ordinary user has one user id in there, their own; root keeps all
// that this machine gave it, so that servers which change their user (sshd)
// work on the hosts too.
func namespaces() (*syscall.SysProcAttr, error) {
	a := &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		var err error
		if a.UidMappings, err = identity("/proc/self/uid_map"); err != nil {
			return nil, err
		}
		if a.GidMappings, err = identity("/proc/self/gid_map"); err != nil {
			return nil, err
		}
		a.GidMappingsEnableSetgroups = true
		return a, nil
	}
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	// execve takes the new namespace's capabilities away from all but uid 0,
	// unless they are ambient.
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		if ok, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err == nil && ok == 1 {
			a.AmbientCaps = append(a.AmbientCaps, c)
		}
	}
	return a, nil
}

// identity maps every id that this process's own namespace has to itself.
func identity(path string) ([]syscall.SysProcIDMap, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []syscall.SysProcIDMap
	for line := range strings.Lines(string(b)) {
		var inside, outside, count int
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: count})
	}
	return out, nil
}

// forbidden adds what to do where the system does not let us make namespaces.
func forbidden(err error) error {
	if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EINVAL) &&
		!core.IsKind(err, core.Unsupported) {
		return &core.Error{Kind: core.KindOf(err), Op: "start emulated hosts", Err: err}
	}
	return &core.Error{Kind: core.Unsupported, Op: "start emulated hosts", Err: err, Remedy: remedy()}
}

func remedy() string {
	setting := func(path string) string {
		b, _ := os.ReadFile(path)
		return strings.TrimSpace(string(b))
	}
	switch {
	case setting("/proc/sys/user/max_user_namespaces") == "0":
		return "User namespaces are switched off here; the administrator can allow them with `sysctl user.max_user_namespaces=15000`."
	case setting("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "User namespaces are for root only here; the administrator can allow them with `sysctl kernel.unprivileged_userns_clone=1`."
	case setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "AppArmor restricts user namespaces here; the administrator can allow them for bee and its copies (binaries/*/bee in the state directory) with a profile (`userns,`), or for all with `sysctl kernel.apparmor_restrict_unprivileged_userns=0`."
	}
	return "Emulated hosts need user, network and mount namespaces, and a /proc that is not masked: inside another container they need `--privileged` or `--security-opt unmask=ALL --security-opt seccomp=unconfined`."
}
