package treesync

import (
	"encoding/binary"
	"io"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A receiver speaks first. Where he has an index of his earlier copy he offers that:
// the name of its transfer, and which of its files he has still. A sender who has an
// index of the same transfer accepts those that are as they were at his end too; they
// are named by their number then, and neither end reads them. Then the receiver shows it
// what he knows of all others, by chunks.
//
// An offer is a head like that of what is known (see Basis.SendKnown) with offerMark in
// place of bits, the transfer's name, and a set of numbers; the answer is the length of
// a set (4 bytes), and that.
const (
	offerMark = 1 << 17
	// wantsIndex, in what is known, asks the sender to name the transfer.
	wantsIndex = 1 << 16
	// keyed means that chunks are named under a key, which comes before the names.
	keyed = 1 << 18
)

// numbers is a set of files of an index.
type numbers []byte

func newNumbers(n int) numbers { return make(numbers, (n+7)/8) }

func (s numbers) add(i int)      { s[i/8] |= 1 << (i % 8) }
func (s numbers) has(i int) bool { return i < 8*len(s) && s[i/8]&(1<<(i%8)) != 0 }

// offer reports a sender of the earlier copy, and what he accepts is not read.
func (b *Basis) offer(sender io.ReadWriter) error {
	content := append(b.index.id[:], b.there...)
	if _, err := sender.Write(append(head(offerMark, len(content)), content...)); err != nil {
		return err
	}
	var answer [4]byte
	if _, err := io.ReadFull(sender, answer[:]); err != nil {
		return cut(err)
	}
	n := int(binary.LittleEndian.Uint32(answer[:]))
	if n != 0 && n != len(b.there) {
		return errDamaged
	}
	accepted := make(numbers, n)
	if _, err := io.ReadFull(sender, accepted); err != nil {
		return cut(err)
	}
	for i := range accepted {
		if accepted[i]&^b.there[i] != 0 {
			return errDamaged
		}
	}
	b.accepted = accepted
	return nil
}

func head(bits, n int) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(bits)), uint32(n))
}

// agreed are the files that a sender does not send, but report by their number.
type agreed struct {
	index    *index
	accepted numbers
	number   map[string]int // by path
}

// accept reads an offer of n bytes and answers it: with the files that are below root
// as they were in the offered transfer. With root "" that are none.
func accept(receiver io.ReadWriter, n int, root string) (*agreed, error) {
	if n < len(transferID{}) || n > len(transferID{})+maxEntries/8 {
		return nil, errDamaged
	}
	offer := make([]byte, n)
	if _, err := io.ReadFull(receiver, offer); err != nil {
		return nil, cut(err)
	}
	there := numbers(offer[len(transferID{}):])
	var a *agreed
	if root != "" {
		if x := readIndex(root); x != nil && x.id == transferID(offer) && len(there) == len(newNumbers(len(x.files))) {
			a = x.unchanged(root, there)
		}
	}
	answer := []byte{0, 0, 0, 0}
	if a != nil {
		binary.LittleEndian.PutUint32(answer, uint32(len(a.accepted)))
		answer = append(answer, a.accepted...)
	}
	_, err := receiver.Write(answer)
	return a, err
}

// unchanged finds the files among some that are as they were. No symbolic link is
// followed, as when they are sent.
func (x *index) unchanged(root string, among numbers) *agreed {
	a := &agreed{index: x, accepted: newNumbers(len(x.files)), number: map[string]int{}}
	in, dir := "", -1
	defer func() { closeDir(dir) }()
	for i, e := range x.files {
		if !e.whole || e.racy || !among.has(i) {
			continue
		}
		if where := path.Dir(e.path); where != in {
			closeDir(dir)
			in, dir = where, openBelow(root, where)
		}
		if dir >= 0 && x.still(e, dir) {
			a.accepted.add(i)
			a.number[e.path] = i
		}
	}
	return a
}

func closeDir(fd int) {
	if fd >= 0 {
		unix.Close(fd)
	}
}

// openBelow opens a directory below root, -1 where it is none.
func openBelow(root, dir string) int {
	fd, err := openDir(unix.AT_FDCWD, root, unix.O_NOFOLLOW)
	if err != nil || dir == "." {
		return fd
	}
	for element := range strings.SplitSeq(dir, "/") {
		next, err := openDir(fd, element, unix.O_NOFOLLOW)
		unix.Close(fd)
		if err != nil {
			return -1
		}
		fd = next
	}
	return fd
}

// still reports whether a file of a directory is as it was. NFS asks its server when it is
// opened for that.
func (x *index) still(e *entry, dir int) bool {
	if !x.remote {
		st, err := lstat(dir, path.Base(e.path))
		return err == nil && x.same(e, st)
	}
	fd, err := unix.Openat(dir, path.Base(e.path), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && x.same(e, &st)
}

// find gives the number of an agreed file of a directory, if it is as it was until now.
func (a *agreed) find(dir int, path string, st *unix.Stat_t) (int, bool) {
	if a == nil {
		return 0, false
	}
	i, is := a.number[path]
	if !is || !a.index.same(a.index.files[i], st) {
		return 0, false
	}
	return i, !a.index.remote || a.index.still(a.index.files[i], dir)
}
