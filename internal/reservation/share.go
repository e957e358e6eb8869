package reservation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Variable has the Path of the reservation that a process is to join at its start.
const Variable = "BEE_RESERVATION"

// shares are the files of reservations that this process shares: a lock ends with the process
// that has it, whichever of its values is the first to be forgotten.
var shares = struct { // locks are the process's
	sync.Mutex
	files map[string]*os.File
}{files: map[string]*os.File{}}

// Share makes a reservation that several processes may hold, as Make does for one, and returns
// its name in the ledger. This process holds it until Drop or until it ends, and so does
// each that joins. "": there can be no ledger, and why says why.
func (l Ledger) Share(p Reservation, enough func(others []Reservation) error) (name string, why, err error) {
	f, err := l.enter()
	if err != nil {
		return "", err, enough(nil)
	}
	defer f.Close()
	others, err := l.read()
	if err != nil {
		return "", err, enough(nil)
	}
	if err := enough(others); err != nil {
		return "", nil, err
	}
	file, err := os.CreateTemp(string(l), "*"+suffix)
	if err != nil {
		return "", err, nil
	}
	text, err := encode(p)
	if err == nil {
		_, err = file.WriteAt(text, 0)
	}
	if err = errors.Join(err, flock(file, unix.LOCK_SH)); err != nil {
		fsutil.TryRemove(file.Name()) // the next reader does, else
		file.Close()
		return "", err, nil
	}
	keep(file)
	return filepath.Base(file.Name()), nil, nil
}

// Join has this process hold a reservation, too, until Drop or until it ends. False: nobody holds
// it any more.
func (l Ledger) Join(name string) bool {
	if !isReservation(name) {
		return false
	}
	path := filepath.Join(string(l), name)
	shares.Lock()
	known := shares.files[path]
	shares.Unlock()
	if known != nil {
		return linked(known)
	}
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	for begun := time.Now(); ; time.Sleep(time.Millisecond) { // who reads the ledger locks it for a moment
		if err = flock(file, unix.LOCK_SH); err == nil || !errors.Is(err, unix.EWOULDBLOCK) || time.Since(begun) > timeout {
			break
		}
	}
	if err != nil || !linked(file) {
		file.Close()
		return false
	}
	keep(file)
	return true
}

// Drop ends a reservation, whichever process holds it.
func (l Ledger) Drop(name string) {
	if !isReservation(name) {
		return
	}
	path := filepath.Join(string(l), name)
	fsutil.TryRemove(path) // it may be gone
	shares.Lock()
	defer shares.Unlock()
	if file := shares.files[path]; file != nil {
		file.Close()
		delete(shares.files, path)
	}
}

// Path is where a reservation of that name is kept, for JoinPath.
func (l Ledger) Path(name string) string { return filepath.Join(string(l), name) }

// JoinPath is Join of a reservation by its Path; "": of none.
func JoinPath(path string) {
	if path != "" {
		Ledger(filepath.Dir(path)).Join(filepath.Base(path))
	}
}

func isReservation(name string) bool {
	return filepath.Base(name) == name && strings.HasSuffix(name, suffix)
}

// linked reports whether a file still has a name.
func linked(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink > 0
}

func keep(f *os.File) {
	shares.Lock()
	defer shares.Unlock()
	if other := shares.files[f.Name()]; other != nil { // two joined at once
		other.Close()
	}
	shares.files[f.Name()] = f
}

// Guests are those reservations that are of virtual machines.
func Guests(all []Reservation) (guests []Reservation) {
	for _, p := range all {
		if p.Site == "" {
			guests = append(guests, p)
		}
	}
	return guests
}

// Reserved is the memory that runs other than one have reserved for their jobs and virtual
// machines, in bytes. The virtual machines of a job are within what it has reserved. jobs
// leaves out runs that have reserved it for virtual machines alone.
func Reserved(all []Reservation, but string, jobs bool) (bytes int64, runs []string) {
	job, guests := map[string]int64{}, map[string]int64{}
	for _, p := range all {
		switch {
		case p.Run == but:
		case p.Site != "":
			job[p.Run] += p.Bytes
		default:
			guests[p.Run] += p.Bytes
		}
	}
	for run, own := range job {
		if own > 0 {
			bytes, runs = bytes+max(own, guests[run]), append(runs, run)
		}
	}
	for run, own := range guests {
		if job[run] == 0 && !jobs {
			bytes, runs = bytes+own, append(runs, run)
		}
	}
	return bytes, runs
}
