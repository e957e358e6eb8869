package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// movable is a container whose machine holds all that it uses: nothing of the
// host's is mounted in it, so that it can be saved and brought up elsewhere.
type movable struct {
	*container
	boot  boot
	image string // the image's ID
	// sums are the digests of the disks that are only read, by serial number.
	sums func() (map[string]string, error)
	// met is closed once there are sessions with the guest.
	met chan struct{}

	mu      sync.Mutex
	changed sync.Cond
	halted  bool
	ended   bool
	from    int64 // of the job's output, the first byte that has not come
	task    bool  // there is one
	asks    bool  // for the devices of a guest that was brought up again
}

// newMovable makes it; sums are the digests, where they are known already.
func newMovable(c *container, b boot, sums map[string]string) *movable {
	m := &movable{container: c, boot: b, image: c.spec.Image.ID, met: make(chan struct{})}
	m.changed.L = &m.mu
	disks := c.machine.made.Disks
	m.sums = sync.OnceValues(func() (map[string]string, error) {
		if sums != nil {
			return sums, nil
		}
		return digests(disks)
	})
	go func() { core.BestEffort(m.sums()) }() // the caller that saves the guest, which shall not wait for it, notices
	go func() {
		<-c.machine.Done()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ended = true
		m.changed.Broadcast()
	}()
	return m
}

// Guest implements driver.Container.
func (m *movable) Guest() driver.Guest { return m }

// Memory implements driver.Container.
func (m *movable) Memory() driver.MemoryLimit { return nil }

// Snapshot implements driver.Guest.
func (m *movable) Snapshot() driver.Snapshot { return m }

// Pause implements driver.Snapshot.
func (m *movable) Pause(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.halted {
		return nil
	}
	if err := m.machine.monitor.Stop(ctx); err != nil {
		return m.lost(err)
	}
	m.halted = true
	m.halts.Add(1)
	return nil
}

// Resume implements driver.Snapshot.
func (m *movable) Resume(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.halted {
		return nil
	}
	if err := m.machine.monitor.Continue(ctx); err != nil {
		return m.lost(err)
	}
	if err := m.wake(ctx); err != nil {
		return m.lost(err)
	}
	m.halted = false
	m.halts.Add(1)
	m.changed.Broadcast()
	return nil
}

// noticeTime is what a guest gets at first to notice that it has another host.
const noticeTime = 400 * time.Millisecond

// wake meets a guest that was brought up again, and sets its clock.
func (m *movable) wake(ctx context.Context) error {
	ctx, cancel := m.machine.within(ctx, bootTimeout, fmt.Errorf("the guest did not answer within %v in which it could run", bootTimeout))
	defer cancel()
	if m.machine.containerAgent == nil {
		if err := m.machine.meet(ctx, m.boot, noticeTime); err != nil {
			return err
		}
		var err error
		if m.machine.root, err = m.boot.port(ctx, api.RootPort, noticeTime); err != nil {
			return err
		}
		if m.asks {
			core.BestEffort(struct{}{}, m.askDevices(ctx)) // they are for the record
		}
		close(m.met)
	}
	r := clock()
	r.CounterKHz = m.machine.made.CounterKHz()
	_, err := rpc.Call(ctx, m.machine.root, api.CallClock, r)
	return err
}

// await returns when there are sessions with the guest, or it has ended.
func (m *movable) await(ctx context.Context) error {
	select {
	case <-m.met:
		return nil
	case <-m.machine.Done():
		return m.lost(errors.New("it has ended"))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Exec implements driver.Container.
func (m *movable) Exec(ctx context.Context, c driver.Command) (driver.Process, error) {
	if err := m.await(ctx); err != nil {
		return nil, err
	}
	return m.container.Exec(ctx, c)
}

// Use implements driver.Container. A guest that was not met yet is not waited for.
func (m *movable) Use(ctx context.Context) (core.Sample, error) {
	select {
	case <-m.met:
		return m.container.Use(ctx)
	default:
		return core.Sample{}, &core.Error{Kind: core.Transient, Op: "measure the container", Object: m.spec.Name, Err: errors.New("its virtual machine is being brought up"), Remedy: core.RemedyAgain}
	}
}

// ExecInGuest implements driver.Guest.
func (m *movable) ExecInGuest(ctx context.Context, c driver.Command) (driver.Process, error) {
	if err := m.await(ctx); err != nil {
		return nil, err
	}
	return m.container.ExecInGuest(ctx, c)
}

// Wait implements driver.Container.
func (m *movable) Wait(ctx context.Context) (core.Exit, error) {
	if err := m.await(ctx); err != nil {
		if ctx.Err() != nil {
			return core.Exit{}, err
		}
		return core.Exit{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL)}, nil
	}
	return m.container.Wait(ctx)
}

// Stop implements driver.Container. Who is halted, or was not met yet, cannot
// be asked to end.
func (m *movable) Stop(ctx context.Context, grace time.Duration) error {
	m.mu.Lock()
	halted := m.halted
	m.mu.Unlock()
	if halted {
		m.machine.Kill()
		return nil
	}
	return m.container.Stop(ctx, grace)
}

// hold gives a container's mounts as they are in a guest that holds them.
func hold(mounts []driver.Mount, v *Volume) ([]driver.Mount, error) {
	inner := make([]driver.Mount, len(mounts))
	for i, m := range mounts {
		if v.is(m) {
			m.Source = api.VolumePath
			inner[i] = m
			continue
		}
		if m.Dir != nil {
			return nil, &core.Error{Kind: core.Unsupported, Op: "mount", Object: m.Source, Err: errors.New("a guest that is saved has no directory of its host"), Remedy: "Leave `mounts:` out, or use another mode of `checkpoint:`."}
		}
		info, err := os.Stat(m.Source)
		if err != nil {
			return nil, &core.Error{Kind: core.NotFound, Op: "mount", Object: m.Source, Err: err}
		}
		inner[i] = m
		inner[i].Source = filepath.Join(api.HeldDir, strconv.Itoa(i))
		if !info.IsDir() {
			inner[i].Source = filepath.Join(inner[i].Source, filepath.Base(m.Source))
		}
	}
	return inner, nil
}

// fill copies what a mount comes from into the guest.
func (m *machine) fill(ctx context.Context, inner driver.Mount, source string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	dir, from, names := inner.Source, source, []string(nil)
	if !info.IsDir() {
		dir, from, names = filepath.Dir(inner.Source), filepath.Dir(source), []string{filepath.Base(source)}
	}
	s, _, err := rpc.Open(ctx, m.containerAgent, api.CallPut, api.PutRequest{Dir: dir})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := treesync.SendMany(ctx, s, from, names, nil); err != nil {
		return err
	}
	failed, err := rpc.Receive[rpc.Failure](s, rpc.DefaultSize)
	if err != nil {
		return err
	}
	if err := failed.Err(); err != nil {
		return &core.Error{
			Kind: core.Permanent, Op: "copy into the virtual machine", Object: source, Err: err,
			Remedy: "Is there room? It lies on the guest's own disk: `vm: {disk: …}`.",
		}
	}
	return nil
}

// Put implements driver.Snapshot.
func (m *movable) Put(ctx context.Context, target, source string) error {
	if err := m.await(ctx); err != nil {
		return err
	}
	inner, err := m.mount(target)
	if err != nil {
		return err
	}
	return m.lost(m.machine.fill(ctx, inner, source))
}

// Get implements driver.Snapshot.
func (m *movable) Get(ctx context.Context, target string, patterns []string, into string) error {
	m.mu.Lock()
	halted := m.halted
	m.mu.Unlock()
	if halted { // for ever, perhaps: another machine of its run could not be brought up
		return &core.Error{Kind: core.NotFound, Op: "take files out of the virtual machine", Object: m.spec.Name, Err: errors.New("it is halted"), Remedy: core.RemedyShow}
	}
	inner, err := m.mount(target)
	if err != nil {
		return err
	}
	s, found, err := rpc.Open(ctx, m.machine.containerAgent, api.CallGet, api.GetRequest{Dir: inner.Source, Patterns: patterns, Seen: target})
	if err != nil {
		return m.lost(err)
	}
	defer s.Close()
	if found.Files == 0 {
		return nil
	}
	return m.lost(treesync.Receive(ctx, s, into))
}

func (m *movable) mount(target string) (driver.Mount, error) {
	for _, inner := range m.mounts {
		if inner.Target == target {
			return inner, nil
		}
	}
	return driver.Mount{}, &core.Error{Kind: core.NotFound, Op: "use mount", Object: target, Err: errors.New("the container has none there"), Remedy: "Name a directory of `mounts:`."}
}
