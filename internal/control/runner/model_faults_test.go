package runner

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// What befalls the machine at home: its clock, its disk, its files.

// jumps are how far a clock may be put forward or back.
func (m *model) offset(what string, n int) time.Duration {
	return []time.Duration{0, time.Hour, -time.Hour, 2 * time.Minute, -2 * time.Minute, 40 * 24 * time.Hour, -40 * 24 * time.Hour}[m.of(what, n)%7]
}

// modelFaults are faults of the submitting machine.
type modelFaults struct{ m *model }

// jump puts the clock of the controller's machine forward or back. In one
// process times are counted by a clock that never jumps; what is exposed are
// the times in the records. So it is those that are moved, the other way.
func (f modelFaults) jump() {
	f.m.mu.Lock()
	d := f.m.offset("clock", 40)
	if d != 0 {
		f.m.say("the clock jumps by %v", d)
		f.space()
	}
	f.m.mu.Unlock()
	if d == 0 {
		return
	}
	if err := f.shiftRecords(-d); err != nil {
		f.m.wrong("the model could not move its records: %v", err)
	}
}

func (f modelFaults) shiftRecords(by time.Duration) error {
	ctx := context.Background()
	attempts, err := f.m.store.Attempts(ctx, f.m.run)
	if err != nil {
		return err
	}
	shift := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return t.Add(by)
	}
	for _, a := range attempts {
		a.Started, a.Ended, a.Granted, a.ReleaseTried = shift(a.Started), shift(a.Ended), shift(a.Granted), shift(a.ReleaseTried)
		if err := f.m.store.PutAttempt(ctx, a, false); err != nil {
			return err
		}
	}
	return f.m.store.Exec(ctx, "UPDATE runs SET created=created+?1, ended=ended+?1 WHERE id=?2", int64(by), f.m.run)
}

// rot damages the newest checkpoint at home, between two controllers.
func (f modelFaults) rot() {
	f.m.mu.Lock()
	way := f.m.of("rot", 40)
	f.m.mu.Unlock()
	if way == 0 || way > 4 {
		return
	}
	attempts := f.m.attempts()
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	list := f.m.kept()
	if len(list) == 0 {
		return
	}
	newest := list[len(list)-1]
	volume := f.m.volume(newest)
	var err error
	switch way {
	case 1:
		err = writeSmall(filepath.Join(volume, "count"), []byte("rotten"))
	case 2:
		err = os.Truncate(filepath.Join(volume, "twin"), 1)
	case 3:
		err = os.Remove(filepath.Join(volume, "twin"))
	case 4:
		err = os.Truncate(f.m.manifest(newest), rotten)
	}
	if err == nil {
		f.m.reached, f.m.homed = f.m.good(), 0
		// What is recorded as being at home is not looked for on the site again, nor what has
		// once come to a store, which is trusted.
		for _, h := range f.m.heads {
			if n := h.l.owner.Attempt; n > len(attempts) || attempts[n-1].Decided() || f.m.far != "" && n == newest.Attempt {
				h.l.saved = 0
			}
			h.l.s.dead = false // what it has may be the only copy again: it is waited for
		}
		f.m.say("the newest checkpoint rots (%d); %d is left", way, f.m.reached)
	}
}

// mostFulls is how often the disk at home fills up in one history, and its store is
// away, so that not all of the history is about that.
const mostFulls = 5

// disk fills the disk at home, or frees it. The model is locked.
func (f modelFaults) disk() {
	switch {
	case !f.m.fullTo.IsZero() && time.Now().After(f.m.fullTo):
		f.space()
	case f.m.fullTo.IsZero() && !f.m.calm && f.m.run != "" && f.m.fulls < mostFulls && f.m.once("full", 400):
		f.m.fulls++
		f.m.fullTo = time.Now().Add(time.Duration(1+f.m.of("full.for", 300)) * time.Minute)
		f.m.say("the disk at home is full until %s", f.m.fullTo.Format("02 15:04:05"))
		f.sql("INSERT INTO full VALUES (1)")
	}
}

// space makes that writing at home succeeds. The model is locked.
func (f modelFaults) space() {
	if f.m.fullTo.IsZero() {
		return
	}
	f.m.fullTo = time.Time{}
	f.m.say("the disk at home has space again")
	f.sql("DELETE FROM full")
}

func (f modelFaults) sql(statement string) {
	if err := f.m.store.Exec(context.Background(), statement); err != nil {
		f.m.wrong("the model could not %s: %v", statement, err)
	}
}

// errFull is what writing says on a full disk.
var errFull = &core.Error{Kind: core.Permanent, Err: unix.ENOSPC}

// wayHome fails when a file cannot be written at home, or only a part of it.
// torn is then the part that comes.
func (m *model) wayHome() (torn bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.fullTo.IsZero() || m.once("full.file", 40):
		return m.once("torn", 2), errFull
	case m.once("tear", 60): // with the power of this machine, or its bee
		m.kill("the controller dies in the midst of a copy")
		return true, errFull
	}
	return false, nil
}

// copyTree copies a file, or a directory of files.
func copyTree(from, to string) error {
	raw, err := readSmall(from)
	if errors.Is(err, unix.EISDIR) {
		entries, err := os.ReadDir(from)
		err = errors.Join(err, os.MkdirAll(to, 0o700))
		for _, e := range entries {
			err = errors.Join(err, copyTree(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
		}
		return err
	}
	if err != nil {
		return err
	}
	if err = writeSmall(to, raw); errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), writeSmall(to, raw))
	}
	return err
}

// readSmall and writeSmall are os.ReadFile and os.WriteFile with a third of their system
// calls, of which a history makes hundreds.
func readSmall(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	for raw := make([]byte, 0, 512); ; raw = slices.Grow(raw, len(raw)) {
		n, err := unix.Read(fd, raw[len(raw):cap(raw)])
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: name, Err: err}
		}
		if raw = raw[:len(raw)+n]; len(raw) < cap(raw) { // of a file in memory, or on a disk, all comes at once
			return raw, nil
		}
	}
}

func writeSmall(name string, raw []byte) error { return putSmall(name, unix.O_TRUNC, raw) }

func putSmall(name string, how int, raw []byte) error {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC|how, 0o600)
	if err == nil {
		_, err = unix.Write(fd, raw)
		unix.Close(fd)
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

// tornCopy copies what gets there before it breaks off: a part of the file, or
// of a directory's first.
func tornCopy(from, to string) {
	if raw, err := readSmall(from); err == nil {
		errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), writeSmall(to, raw[:len(raw)/2])) //nolint:errcheck // it is torn anyway
		return
	}
	os.MkdirAll(to, 0o700) //nolint:errcheck // it is torn anyway
	if raw, err := readSmall(filepath.Join(from, "count")); err == nil {
		writeSmall(filepath.Join(to, "count"), raw[:len(raw)/2]) //nolint:errcheck // see above
	}
}

// forget leaves nothing of a run at home.
func (m *model) forget() {
	m.mu.Lock()
	modelFaults{m}.space()
	m.mu.Unlock()
	os.RemoveAll(m.store.RunDir(m.run))
	m.store.RemoveRun(context.Background(), m.run) //nolint:errcheck // the home is removed in the end
	if m.bystander != "" {
		os.RemoveAll(m.store.RunDir(m.bystander))
		m.store.RemoveRun(context.Background(), m.bystander) //nolint:errcheck // see above
	}
}
