package rootless

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/runtime/command"
)

// Probe implements driver.Runtime: it makes a container of nothing, with every
// namespace and mount that a real one has.
func (r *Runtime) Probe(ctx context.Context) (driver.Facts, error) {
	upper, err := r.upper(ctx)
	if err != nil {
		return driver.Facts{Reason: err.Error(), Remedy: core.Remedy(err)}, nil
	}
	return driver.Facts{Usable: true, Detail: map[string]string{"writes": string(upper)}}, nil
}

// known is what upper has found; empty: nothing yet.
func (r *Runtime) known() Upper {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.o.Upper
}

// upper is the best way that works here to keep a container's writes.
func (r *Runtime) upper(ctx context.Context) (Upper, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.Upper != "" {
		return r.o.Upper, nil
	}
	var first error
	for _, u := range []Upper{Overlay, FuseOverlay, Copy} {
		if u == FuseOverlay {
			if _, err := exec.LookPath("fuse-overlayfs"); err != nil {
				continue
			}
		}
		err := r.try(ctx, u)
		if err == nil {
			r.o.Upper = u
			return u, nil
		}
		if first == nil {
			first = err
		}
	}
	return "", first
}

func (r *Runtime) try(ctx context.Context, u Upper) error {
	dir, err := fsutil.TempDir("", "bee-probe-")
	if err != nil {
		return err
	}
	defer fsutil.TryRemoveAll(dir)
	tree := dir + "/tree"
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	c, err := r.spawn(ctx, setup{Tree: tree, StateDir: dir, Upper: u, User: command.Caller(), ProbeOnly: true}, nil)
	if err != nil {
		return diagnose(err)
	}
	return c.Wait()
}

// diagnose says, once, which setting of the system forbids what was refused.
func diagnose(err error) error {
	if _, done := errors.AsType[*core.Error](err); done {
		return err
	}
	e := &core.Error{Kind: core.Unsupported, Op: "make a rootless container", Err: err}
	sysctl := func(path string) string {
		raw, rerr := os.ReadFile(path)
		if rerr != nil {
			return ""
		}
		return strings.TrimSpace(string(raw))
	}
	switch {
	case sysctl("/proc/sys/user/max_user_namespaces") == "0":
		e.Remedy = "User namespaces are switched off: ask the administrator to set `user.max_user_namespaces` above 0 (sysctl)."
	case sysctl("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		e.Remedy = "Debian's switch forbids user namespaces: ask the administrator for `sysctl kernel.unprivileged_userns_clone=1`."
	case sysctl("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		e.Remedy = "AppArmor forbids user namespaces to programs without a profile: ask the administrator for a profile with `userns,` for the bee binary and its copies (binaries/*/bee in the state directory), or for `sysctl kernel.apparmor_restrict_unprivileged_userns=0`."
	case errors.Is(err, syscall.EPERM) && inContainer():
		e.Remedy = "This looks like the inside of a container whose seccomp filter forbids user namespaces: start it with a filter that allows unshare and mount, or run bee outside."
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EUSERS):
		e.Remedy = "Too many user namespaces are in use or nested: ask the administrator to raise `user.max_user_namespaces`."
	default:
		e.Remedy = "`bee doctor` tells which other runtimes this host has."
	}
	return e
}

func inContainer() bool {
	for _, p := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(p); err == nil {
			return true
		}
	}
	return false
}
