package reservation

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Ledger is the directory of all reservations of one user on one host. Each is a file that
// the process that made it has locked; one that nobody locks is of a process that has
// died, and is removed by the next who looks.
type Ledger string

// Own is this user's on this host. It is where all runs find it.
func Own() Ledger { return Ledger(fsutil.HostPlace("bee-memory-")) }

// timeout is how long the ledger may be in another process's hands: it is for less
// than a millisecond, unless that one is stopped.
const timeout = 2 * time.Second

// enter takes the ledger for this process.
func (l Ledger) enter() (*os.File, error) {
	dir := string(l)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	own, err := fsutil.OpenOwn(dir)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	f, err := os.OpenFile(filepath.Join(own.Pinned(), "lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if err = lock(f); err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Since(begun) > timeout {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", filepath.Join(dir, "lock"), err)
		}
	}
}

// Reservations gives those that are held now.
func (l Ledger) Reservations() ([]Reservation, error) {
	f, err := l.enter()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return l.read()
}

const suffix = ".promise"

// read reads them; the ledger is ours.
func (l Ledger) read() ([]Reservation, error) {
	files, err := filepath.Glob(filepath.Join(string(l), "*"+suffix))
	if err != nil {
		return nil, err
	}
	var all []Reservation
	for _, file := range files {
		p, err := readOne(file)
		if err != nil {
			return nil, err
		}
		if p != nil {
			all = append(all, *p)
		}
	}
	return all, nil
}

// readOne reads one; nil: nobody holds it, and it is gone.
func readOne(file string) (*Reservation, error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) { // released meanwhile
		return nil, nil // there is none
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch err := lock(f); {
	case err == nil:
		if err := os.Remove(file); !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		return nil, nil // released meanwhile
	case !errors.Is(err, unix.EWOULDBLOCK):
		return nil, err
	}
	p := new(Reservation)
	if err := json.NewDecoder(f).Decode(p); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return p, nil
}

// Make makes a reservation that enough, notified of those that are held, does not refuse. No
// other is made meanwhile. Where there can be no ledger, enough is notified of none, and
// there is nothing to hold; why says why.
func (l Ledger) Make(p Reservation, enough func(others []Reservation) error) (held *Held, why, err error) {
	f, err := l.enter()
	if err != nil {
		return nil, err, enough(nil)
	}
	defer f.Close()
	others, err := l.read()
	if err != nil {
		return nil, err, enough(nil)
	}
	if err := enough(others); err != nil {
		return nil, nil, err
	}
	h := &Held{ledger: l, over: make(chan struct{})}
	if h.file, err = os.CreateTemp(string(l), "*"+suffix); err != nil {
		return nil, err, nil
	}
	text, err := encode(p)
	if err == nil {
		_, err = h.file.WriteAt(text, 0)
	}
	if err = errors.Join(err, lock(h.file)); err != nil {
		fsutil.TryRemove(h.file.Name()) // the next reader does, else
		h.file.Close()
		return nil, err, nil
	}
	go h.keep(p)
	return h, nil, nil
}

// write puts a reservation in its file's place; the padding takes what is longer.
func (l Ledger) write(to *os.File, p Reservation) error {
	f, err := l.enter()
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := encode(p)
	if err == nil {
		_, err = to.WriteAt(text, 0)
	}
	return err
}

// resident is how much memory of its own a process has, in bytes: none of what it
// shares with its files.
func resident(pid int) (bytes int64) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		switch f := strings.Fields(line); {
		case len(f) < 2:
		case f[0] == "RssAnon:" || f[0] == "RssShmem:":
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			bytes += kib << 10
		}
	}
	return bytes
}
