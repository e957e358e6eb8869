// Package mount is the client of a burst buffer: a FUSE file system that passes what
// programs do to the I/O process, and the commands' way to mount and unmount it. It keeps
// no data: whatever has returned to a program is with the I/O process.
package mount

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/mountns"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Command is the first argument of a client; the volume's directory follows.
const Command = "volume-client"

// leaveTime bounds the wait for the end of a session.
const leaveTime = 2 * time.Second

// Main is the client.
func Main(args []string) int { return burst.Background("client", args, serve) }

func serve(c burst.Config, logs *slog.Logger, ready func()) error {
	place := c.Mount
	if c.Private { // mounted already
		place = fmt.Sprintf("/dev/fd/%d", burst.MountFD)
		unix.CloseOnExec(burst.MountFD)
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	lock, err := lockClient(c)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	var starter <-chan struct{} // nil: the client does not end with it
	if endsWithStarter(c) {
		starter = burst.StarterEnded()
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l := newLink(c, binary, logs)
	peer, err := l.connect(ctx)
	if err != nil {
		return err
	}
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		l.keep(ctx, peer)
	}()
	server, err := fuse.NewServer(newFiles(l), place, &fuse.MountOptions{
		FsName: "bee-" + c.ID, Name: "bee", Options: []string{"default_permissions"}, MaxWrite: mostWrite, MaxBackground: 64,
		DisableXAttrs: true, EnableLocks: c.Shared, AllowOther: c.Everyone, DirectMountStrict: os.Geteuid() == 0, Logger: log.New(io.Discard, "", 0),
	})
	if err != nil {
		peer.Close()
		return explain(c.Mount, err)
	}
	go func() {
		for range signals {
			if c.Private { // it ends with its node
				continue
			}
			if err := server.Unmount(); err != nil {
				logs.Warn("unmount", "err", err)
			}
		}
	}()
	left := make(chan struct{})
	go func() { // a directory that only fails, or that nobody unmounts any more
		select {
		case <-l.over:
		case <-starter:
		case <-ctx.Done():
			return
		}
		if c.Private { // its node unmounts it
			return
		}
		if err := forsake(ctx, server, c.Mount); err != nil {
			logs.Warn("unmount", "err", err)
		}
		close(left)
	}()
	go server.Serve()
	if err := server.WaitMount(); err != nil {
		err = explain(c.Mount, err)
		if !c.Private {
			err = errors.Join(err, server.Unmount())
		}
		return err
	}
	ready()
	unmounted := make(chan struct{})
	go func() {
		defer close(unmounted)
		server.Wait()
	}()
	select {
	case <-unmounted:
	case <-left: // programs that use it get errors once this process has ended
	}
	l.leave()
	select {
	case <-kept: // the I/O process has noticed
	case <-time.After(leaveTime):
	}
	cancel()
	peer.Close()
	return nil
}

// mostUsed is how long programs may still use a mount whose client ends by itself.
const mostUsed = 10 * time.Second

// forsake unmounts a directory once no process uses it. After a while, the mount is detached in any case.
func forsake(ctx context.Context, server *fuse.Server, dir string) error {
	most, cancel := context.WithTimeout(ctx, mostUsed)
	defer cancel()
	for server.Unmount() != nil {
		if core.Sleep(most, time.Second) == nil {
			continue
		}
		if ctx.Err() != nil { // it was unmounted meanwhile
			return nil
		}
		return detach(context.WithoutCancel(ctx), dir)
	}
	return nil
}

// detach takes a mount away from its directory, although programs use it.
func detach(ctx context.Context, dir string) error {
	if os.Geteuid() == 0 || mountns.Own() {
		return unix.Unmount(dir, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	out, err := exec.CommandContext(ctx, "fusermount3", "-u", "-z", "--", dir).CombinedOutput()
	if text := strings.TrimSpace(string(out)); err != nil && text != "" {
		err = errors.New(core.Printable(text, 500))
	}
	return err
}

// explain gives an error of mounting with its remedy.
func explain(dir string, err error) error {
	e := &core.Error{Kind: core.Unsupported, Op: "mount", Object: dir, Err: errors.New(strings.TrimSpace(err.Error())), Remedy: "Read the volume's log."}
	switch {
	case mountns.Own():
		e.Remedy = deviceNeeds()
	case os.Geteuid() != 0:
		e.Remedy = Needs()
		if e.Remedy == "" {
			e.Remedy = "Does the directory belong to you?"
		}
	}
	return e
}

// Needs is what an ordinary user lacks here for mounting, as an instruction; "" where
// nothing is known to be missing.
func Needs() string {
	if os.Geteuid() != 0 && !hasFusermount() {
		return "Ask your administrator to install fuse3, which has fusermount3."
	}
	return deviceNeeds()
}

// NeedsOfRun is as Needs, for runs: these need either fusermount3, or namespaces.
func NeedsOfRun(ctx context.Context) string {
	if needs := deviceNeeds(); needs != "" || os.Geteuid() == 0 || hasFusermount() || mountns.Allowed(ctx) {
		return needs
	}
	return "Ask your administrator to allow user namespaces (`sysctl user.max_user_namespaces`), or to install fuse3, which has fusermount3."
}

func hasFusermount() bool {
	_, err := exec.LookPath("fusermount3")
	return err == nil
}

// deviceNeeds is what this user lacks for using the kernel's device.
func deviceNeeds() string {
	f, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(f)
		return ""
	}
	if errors.Is(err, unix.ENOENT) {
		return "Ask your administrator to load the kernel's module fuse: there is no /dev/fuse."
	}
	return "Ask your administrator to open /dev/fuse to users, as udev does: `chmod 666 /dev/fuse`."
}

// Unmount unmounts a directory; programs that use it keep it from that. What is not
// mounted is success.
func Unmount(ctx context.Context, dir string) error {
	at, err := At(dir)
	if err != nil || at == "" {
		return err
	}
	var out []byte
	if os.Geteuid() == 0 || mountns.Own() {
		err = unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
	} else {
		out, err = exec.CommandContext(ctx, "fusermount3", "-u", "--", dir).CombinedOutput()
	}
	if err == nil {
		return nil
	}
	if at, look := At(dir); look == nil && at == "" {
		return nil // another process was quicker
	}
	if text := strings.TrimSpace(string(out)); text != "" {
		err = errors.New(core.Printable(text, 500))
	}
	return &core.Error{Kind: core.Busy, Op: "unmount", Object: dir, Err: err, Remedy: "End the programs that use it: `fuser -vm " + dir + "` lists them."}
}

// At gives the id of the volume that is mounted at a directory; "" where none is.
func At(dir string) (id string, err error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(raw)) {
		before, after, _ := strings.Cut(line, " - ")
		fields, source := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(source) < 2 || unescape(fields[4]) != dir {
			continue
		}
		id = "" // the newest mount counts
		if source[0] == "fuse.bee" {
			id = strings.TrimPrefix(source[1], "bee-")
		}
	}
	return id, nil
}

// unescape reads a path as mountinfo writes it.
func unescape(path string) string {
	for _, c := range " \t\n\\" {
		path = strings.ReplaceAll(path, fmt.Sprintf(`\%03o`, c), string(c))
	}
	return path
}
