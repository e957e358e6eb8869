// Package locks has the locks on the files of a burst buffer: those of fcntl, on ranges of
// bytes, and those of flock, on whole files. A table belongs to one caller at a time. The package
// knows nothing of files, and waits for nobody.
package locks

import (
	"cmp"
	"errors"
	"math"
	"slices"
)

// Owner is who has a lock: a program of a client, by fcntl or by flock.
type Owner struct {
	Client uint64 `json:"client"`
	Number uint64 `json:"number"` // as the client's kernel calls it
	Whole  bool   `json:"whole,omitempty"`
}

// Lock is a lock on the bytes from Start to End, both included.
type Lock struct {
	Owner Owner  `json:"owner"`
	Start uint64 `json:"start"`
	End   uint64 `json:"end"`
	Write bool   `json:"write,omitempty"`
	PID   uint32 `json:"pid,omitempty"`
}

// Held is a lock on a file.
type Held struct {
	Ino  uint64 `json:"ino"`
	Lock Lock   `json:"lock"`
}

// Most is how many locks a client may have.
const Most = 1 << 12

// ErrMany is about a client that has Most locks.
var ErrMany = errors.New("too many locks")

// Table is a set of locks.
type Table struct {
	files map[uint64][]Lock // by file, in the order of their starts
	count map[uint64]int    // by client
}

// New makes an empty table.
func New() *Table { return &Table{files: map[uint64][]Lock{}, count: map[uint64]int{}} }

// Conflict gives a lock of another owner that keeps l from being set; nil: there is none.
func (t *Table) Conflict(ino uint64, l Lock) *Lock {
	for _, other := range t.files[ino] {
		if other.Owner.Whole == l.Owner.Whole && other.Owner != l.Owner && (other.Write || l.Write) && other.Start <= l.End && l.Start <= other.End {
			return &other
		}
	}
	return nil
}

// Set sets a lock that no other one keeps from it, in the place of what its owner had there.
func (t *Table) Set(ino uint64, l Lock) error {
	if t.count[l.Owner.Client] >= Most {
		return ErrMany
	}
	t.Unset(ino, l.Owner, l.Start, l.End)
	list := t.files[ino]
	for i := 0; i < len(list); { // neighbours of the same kind become one
		o := list[i]
		if o.Owner != l.Owner || o.Write != l.Write || !adjoin(o, l) {
			i++
			continue
		}
		l.Start, l.End = min(o.Start, l.Start), max(o.End, l.End)
		list = slices.Delete(list, i, i+1)
		t.count[l.Owner.Client]--
	}
	i, _ := slices.BinarySearchFunc(list, l.Start, func(o Lock, start uint64) int { return cmp.Compare(o.Start, start) })
	t.files[ino] = slices.Insert(list, i, l)
	t.count[l.Owner.Client]++
	return nil
}

// adjoin reports whether one of two locks begins where the other ends.
func adjoin(a, b Lock) bool {
	return a.End != math.MaxUint64 && a.End+1 == b.Start || b.End != math.MaxUint64 && b.End+1 == a.Start
}

// Unset releases what an owner has between two bytes.
func (t *Table) Unset(ino uint64, o Owner, start, end uint64) {
	var list []Lock
	for _, l := range t.files[ino] {
		if l.Owner != o || l.End < start || l.Start > end {
			list = append(list, l)
			continue
		}
		t.count[o.Client]--
		if l.Start < start {
			head := l
			head.End = start - 1
			list = append(list, head)
			t.count[o.Client]++
		}
		if l.End > end {
			tail := l
			tail.Start = end + 1
			list = append(list, tail)
			t.count[o.Client]++
		}
	}
	slices.SortStableFunc(list, func(a, b Lock) int { return cmp.Compare(a.Start, b.Start) })
	t.keep(ino, list)
	if t.count[o.Client] == 0 {
		delete(t.count, o.Client)
	}
}

// Drop releases all that a client has.
func (t *Table) Drop(client uint64) {
	if t.count[client] == 0 {
		return
	}
	for ino, list := range t.files {
		t.keep(ino, slices.DeleteFunc(list, func(l Lock) bool { return l.Owner.Client == client }))
	}
	delete(t.count, client)
}

// Any reports whether a client has a lock.
func (t *Table) Any(client uint64) bool { return t.count[client] > 0 }

// All gives all locks of a client.
func (t *Table) All(client uint64) (all []Held) {
	for ino, list := range t.files {
		for _, l := range list {
			if l.Owner.Client == client {
				all = append(all, Held{ino, l})
			}
		}
	}
	return all
}

func (t *Table) keep(ino uint64, list []Lock) {
	if len(list) == 0 {
		delete(t.files, ino)
		return
	}
	t.files[ino] = list
}
