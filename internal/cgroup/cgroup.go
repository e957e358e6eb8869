// Package cgroup bounds the memory of a container's processes by a control group, where this
// user may make one: of version 1 or 2, below the group that this process is in. It moves
// nothing out of a limit that others have set, and knows neither containers nor runs.
package cgroup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Group is a control group with a limit of memory. The process that made it has locked its
// directory, so that one which is left by a process that has died is found, and removed by
// the next that makes a group beside it.
type Group struct {
	dir string
	v   *version

	mu    sync.Mutex
	lock  *os.File // nil: it is removed
	kills int      // when it was
}

// version is what the two versions of control groups call things
// (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst).
type version struct {
	magic            int64
	limit, swap      string
	events, killsKey string
	// together: the limit of swap is one of memory and swap.
	together bool
}

var (
	first  = version{unix.CGROUP_SUPER_MAGIC, "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control", "oom_kill", true}
	second = version{unix.CGROUP2_SUPER_MAGIC, "memory.max", "memory.swap.max", "memory.events", "oom_kill", false}
)

const (
	procs    = "cgroup.procs"
	prefix   = "bee-"
	ownGroup = "bee-own" // what processes are in whose group of version 2 has groups below it
	attempts = 16
	// removal is how long the end of a group's last process may take.
	removal = 2 * time.Second
)

// Make makes a group whose processes may use so many bytes of memory together, and no swap.
// An error of kind Unsupported has the reason why this user cannot have one here.
func Make(bytes int64) (*Group, error) {
	parent, v, err := delegated()
	if err != nil {
		return nil, unsupported(err)
	}
	sweep(parent)
	for range attempts { // another process may take a new group for one that was left
		g, err := makeEmpty(parent, v)
		if errors.Is(err, errSwept) {
			continue
		}
		if err == nil {
			if err = g.bound(bytes); err == nil {
				return g, nil
			}
			err = errors.Join(err, g.Remove())
		}
		return nil, unsupported(err)
	}
	return nil, unsupported(errSwept)
}

var errSwept = errors.New("other processes remove the group before it is used")

func unsupported(err error) error {
	return &core.Error{
		Kind: core.Unsupported, Op: "limit memory", Err: err,
		Remedy: "Start bee in a control group that is yours, such as by `systemd-run --user --scope -p Delegate=yes`.",
	}
}

// makeEmpty makes a group without a limit.
func makeEmpty(parent string, v *version) (*Group, error) {
	dir, err := os.MkdirTemp(parent, prefix+"*") // of mode 0700: no other user can lock it
	if err != nil {
		return nil, err
	}
	f, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errSwept
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, errSwept
	}
	g := &Group{dir: dir, v: v, lock: f}
	if !g.exists() {
		f.Close()
		return nil, errSwept
	}
	return g, nil
}

// exists reports whether the group's directory is the one that was locked.
func (g *Group) exists() bool {
	locked, err1 := g.lock.Stat()
	there, err2 := os.Lstat(g.dir)
	return err1 == nil && err2 == nil && os.SameFile(locked, there)
}

// bound sets the limits.
func (g *Group) bound(bytes int64) error {
	if err := g.write(g.v.limit, strconv.FormatInt(bytes, 10)); err != nil {
		return err
	}
	swap := int64(0)
	if g.v.together {
		swap = bytes
	}
	err := g.write(g.v.swap, strconv.FormatInt(swap, 10))
	if errors.Is(err, os.ErrNotExist) { // swap is not counted here
		return nil
	}
	return err
}

func (g *Group) write(file, text string) error {
	return write(filepath.Join(g.dir, file), text)
}

// write writes to a file of a control group, which is made by the kernel alone.
func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Add puts a process into the group, with all that it will start.
func (g *Group) Add(pid int) error { return g.write(procs, strconv.Itoa(pid)) }

// Kills counts the group's processes that the kernel has killed because the limit was
// reached.
func (g *Group) Kills() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lock == nil {
		return g.kills
	}
	return g.count()
}

func (g *Group) count() int {
	raw, err := os.ReadFile(filepath.Join(g.dir, g.v.events))
	if err != nil {
		return 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		if key, value, _ := strings.Cut(lines.Text(), " "); key == g.v.killsKey {
			n, err := strconv.Atoi(value)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// Remove removes the group, once its last process has ended. Idempotent.
func (g *Group) Remove() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lock == nil {
		return nil
	}
	g.kills = g.count()
	defer func() {
		g.lock.Close()
		g.lock = nil
	}()
	ctx, cancel := context.WithTimeout(context.Background(), removal)
	defer cancel()
	for {
		err := os.Remove(g.dir)
		switch {
		case err == nil || errors.Is(err, os.ErrNotExist):
			return nil
		case !errors.Is(err, unix.EBUSY) || core.Sleep(ctx, time.Millisecond) != nil:
			return fmt.Errorf("remove the control group: %w", err)
		}
	}
}

// sweep removes groups of processes that have died, once all in them have ended too: the
// kernel removes no group that has a process.
func sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) || e.Name() == ownGroup {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if lock(f) == nil {
			fsutil.TryRemove(dir) // it has processes, or is another user's
		}
		f.Close()
	}
}

// Sweep removes the groups that processes of this user have left, where this one would make
// its own.
func Sweep() {
	if parent, _, err := place(); err == nil {
		sweep(parent)
	}
}

func lock(f *os.File) error { return fsutil.TryFlock(int(f.Fd()), unix.LOCK_EX) }

// delegated is the group below which this user may make groups with a limit of memory.
func delegated() (string, *version, error) {
	parent, v, err := place()
	if err != nil {
		return "", nil, err
	}
	if err := unix.Access(parent, unix.W_OK); err != nil {
		return "", nil, fmt.Errorf("the control group of bee is not this user's: %w", err)
	}
	if v == &second {
		err = passMemory(parent)
	}
	return parent, v, err
}

// place is this process's group of the hierarchy that has the memory controller, or the one
// above it where passMemory has moved this process down.
func place() (string, *version, error) {
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", nil, err
	}
	unified := ""
	for line := range strings.Lines(string(raw)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		switch {
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			dir, err := find("/sys/fs/cgroup/memory", group, &first)
			return dir, &first, err
		case id == "0":
			unified = group
		}
	}
	if unified == "" {
		return "", nil, errors.New("the kernel has no control groups for memory")
	}
	dir, err := find("/sys/fs/cgroup", unified, &second)
	if err != nil {
		return "", nil, err
	}
	if filepath.Base(dir) == ownGroup {
		dir = filepath.Dir(dir)
	}
	if !hasWord(filepath.Join(dir, "cgroup.controllers"), "memory") {
		return "", nil, errors.New("the control group of bee has no controller of memory")
	}
	return dir, &second, nil
}

// find is the directory of this process's group. In a container the mount may show that
// group alone, whatever its name outside, or another one.
func find(mount, group string, v *version) (string, error) {
	own := strconv.Itoa(os.Getpid())
	for _, dir := range []string{filepath.Join(mount, group), mount} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == v.magic && hasWord(filepath.Join(dir, procs), own) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%s does not show the control group of bee", mount)
}

// passMemory has groups below a group of version 2 have the memory controller. Such a group
// may have no processes of its own, so that those of this user are moved into one below it,
// which has no limit. That is done only with a group that was delegated.
func passMemory(dir string) error {
	const file = "cgroup.subtree_control"
	control := filepath.Join(dir, file)
	if hasWord(control, "memory") {
		return nil
	}
	err := write(control, "+memory")
	if !errors.Is(err, unix.EBUSY) || !isDelegated(dir) {
		return err
	}
	own := filepath.Join(dir, ownGroup)
	if err := os.Mkdir(own, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for range attempts { // a process that forks meanwhile has its child in the old group
		pids, rerr := words(filepath.Join(dir, procs))
		if rerr != nil {
			return rerr
		}
		for _, pid := range pids {
			if werr := write(filepath.Join(own, procs), pid); werr != nil && !errors.Is(werr, unix.ESRCH) {
				return fmt.Errorf("the control group of bee has processes that are not this user's: %w", werr)
			}
		}
		if err = write(control, "+memory"); !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	return err
}

// isDelegated reports whether a group is one to divide further: an ordinary user's is one if
// its files are writable, and root's if it was marked so (systemd's
// docs/CGROUP_DELEGATION.md), as root may write to every group.
func isDelegated(dir string) bool {
	if os.Geteuid() != 0 {
		return unix.Access(filepath.Join(dir, procs), unix.W_OK) == nil
	}
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		mark := make([]byte, 8)
		if n, err := unix.Getxattr(dir, name, mark); err == nil && string(mark[:n]) == "1" {
			return true
		}
	}
	return false
}

// words are those of a small file of the kernel.
func words(path string) ([]string, error) {
	raw, err := os.ReadFile(path)
	return strings.Fields(string(raw)), err
}

func hasWord(path, word string) bool {
	list, err := words(path)
	return err == nil && slices.Contains(list, word)
}
