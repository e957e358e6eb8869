package filestream

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// index tells of a tree that has travelled which version of each file that was. Both
// ends keep one beside their copy, with the name that their transfer has: so when the
// tree, or what has become of it, travels between these two again, neither has to
// read what is still the same there.
//
// That it is the same, its stamp tells: no program can set a file's ctime. What an
// index says is believed only where that holds (see journal), and until the machine is
// started anew: a crash may keep what was written to a file, and not its ctime. It is a
// cache: without it all is read.
type index struct {
	id    transferID
	dev   uint64   // of the file system that holds it
	files []*entry // as they came in the stream
}

// transferID names what has travelled.
type transferID [16]byte

// stamp tells a version of a file.
type stamp struct {
	inode uint64
	size  int64
	ctime int64 // nanoseconds since 1970
}

func stampOf(st *unix.Stat_t) stamp { return stamp{st.Ino, st.Size, st.Ctim.Nano()} }

// entry is a file of an index.
type entry struct {
	path string // from the tree
	stamp
	// check is the CRC of all of the content, where whole says so: with holes, and
	// with several names, files travel as others do.
	check uint32
	whole bool
	// racy tells that another change might have left the same stamp.
	racy bool
}

// same tells whether a file has the content still that it had.
func (x *index) same(e *entry, st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFREG && st.Dev == x.dev && stampOf(st) == e.stamp
}

// The limits of what is believed of an index.
const (
	maxEntries = 1 << 21
	leastEntry = 10 // bytes
	maxIndex   = 1 << 30
)

const indexMagic = "BEEix1\n"

func indexName(path string) string { return beside(path, "index") }

// encode gives a magic, the name of this start of the machine, what the index holds,
// and a checksum of all that.
func (x *index) encode(boot string) []byte {
	b := appendString([]byte(indexMagic), boot)
	b = append(b, x.id[:]...)
	b = binary.AppendUvarint(b, x.dev)
	b = binary.AppendUvarint(b, uint64(len(x.files)))
	last := &entry{}
	for _, e := range x.files {
		n := common(last.path, e.path)
		b = binary.AppendUvarint(b, uint64(n))
		b = appendString(b, e.path[n:])
		b = binary.AppendVarint(b, int64(e.inode-last.inode))
		b = binary.AppendUvarint(b, uint64(e.size))
		b = binary.AppendVarint(b, e.ctime-last.ctime)
		flags := byte(0)
		if e.whole {
			flags |= 1
		}
		if e.racy {
			flags |= 2
		}
		b = binary.LittleEndian.AppendUint32(append(b, flags), e.check)
		last = e
	}
	name := sumOf(b)
	return append(b, name[:]...)
}

func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

var errIndex = errors.New("no index, or a damaged one") //nolint:gochecknoglobals // a constant

func decodeIndex(b []byte, boot string) (*index, error) {
	end := len(b) - len(sum{})
	if end < 0 || sumOf(b[:end]) != sum(b[end:]) || !strings.HasPrefix(string(b), indexMagic) {
		return nil, errIndex
	}
	f := &fields{b: b[len(indexMagic):end]}
	if f.string() != boot || len(f.b) < len(transferID{}) {
		return nil, errIndex
	}
	x := &index{id: transferID(f.b)}
	f.b = f.b[len(x.id):]
	x.dev = f.uint()
	n := f.uint()
	if f.err != nil || n > maxEntries || n > uint64(len(f.b)/leastEntry) {
		return nil, errIndex
	}
	x.files = make([]*entry, 0, n)
	last := &entry{}
	for range n {
		e := &entry{}
		keep, rest := f.uint(), f.string()
		if keep > uint64(len(last.path)) {
			return nil, errIndex
		}
		e.path = last.path[:keep] + rest
		e.inode = last.inode + uint64(f.int())
		e.size, e.ctime = int64(f.uint()), last.ctime+f.int()
		if f.err != nil || len(f.b) < 5 || !filepath.IsLocal(e.path) || e.size < 0 {
			return nil, errIndex
		}
		e.whole, e.racy = f.b[0]&1 != 0, f.b[0]&2 != 0
		e.check = binary.LittleEndian.Uint32(f.b[1:])
		f.b = f.b[5:]
		x.files, last = append(x.files, e), e
	}
	if len(f.b) != 0 {
		return nil, errIndex
	}
	return x, nil
}

// readIndex gives the index of the tree at path, nil where there is none that counts.
func readIndex(path string) *index {
	boot := bootID()
	st, err := os.Lstat(indexName(path))
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxIndex || boot == "" {
		return nil
	}
	b, err := os.ReadFile(indexName(path))
	if err != nil {
		return nil
	}
	x, err := decodeIndex(b, boot)
	if err != nil {
		return nil
	}
	return x
}

// forgetIndex removes what has turned out wrong.
func forgetIndex(path string) { os.Remove(indexName(path)) } //nolint:errcheck // it may be gone

// bootID names this start of the machine; "" where that cannot be told.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// journal is an index that is being made, of a tree that travels.
type journal struct {
	index
	path string // of the tree
	boot string
	file *os.File // in the place of which it will be
	now  int64    // what was changed before it was begun is older, by the clock of the file system
}

// newJournal begins the index of the tree at path; nil where nothing can be kept
// beside it, or its file system cannot be relied on.
func newJournal(path string, id transferID) *journal {
	j := &journal{index: index{id: id}, path: path, boot: bootID()}
	if j.boot == "" {
		return nil
	}
	var err error
	if j.file, err = os.OpenFile(indexName(path)+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600); err != nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(j.file.Fd()), &st); err != nil || !reliable(j.file) || !j.tick() {
		j.close()
		return nil
	}
	j.dev = st.Dev
	return j
}

func newTransferID() (id transferID) {
	rand.Read(id[:]) //nolint:errcheck // it cannot fail
	return id
}

// reliable tells whether a file system keeps a ctime of its own for every file, and
// tells it as it is now: not what another host could have changed since.
func reliable(f *os.File) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &fs) != nil {
		return false
	}
	// NFS is up to date for who opens a file, as is done here.
	return slices.Contains([]int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.NFS_SUPER_MAGIC, lustreMagic, zfsMagic}, int64(fs.Type))
}

// Those that package unix does not know.
const (
	lustreMagic = 0x0bd00bd0
	zfsMagic    = 0x2fc12fc1
)

// tick waits until the file system's clock has moved on, so that whatever is changed
// from now on gets another ctime than what was changed before. False where that is not
// its clock, but what a program has set.
func (j *journal) tick() bool {
	var first int64
	for try := range 50 {
		var st unix.Stat_t
		if futimens(int(j.file.Fd()), unix.Timespec{}) != nil || unix.Fstat(int(j.file.Fd()), &st) != nil || st.Ctim.Nano() == st.Mtim.Nano() {
			return false
		}
		if j.now = st.Ctim.Nano(); try == 0 {
			first = j.now
		} else if j.now > first {
			return true
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil) //nolint:errcheck // a shorter one is one more try
	}
	j.now = first // its clock is a coarse one
	return true
}

// wholeSeconds is how much older a file has to be where a file system tells its ctime
// by seconds: clocks of several servers may be in it.
const wholeSeconds = 2e9

// racy tells whether a change after now might leave the ctime that a file has.
func (j *journal) isRacy(ctime int64) bool {
	if ctime%1e9 == 0 {
		return ctime >= j.now-wholeSeconds
	}
	return ctime >= j.now
}

// add notes a file. It may be completed until the journal is kept.
func (j *journal) add(path string) *entry {
	if j == nil {
		return nil
	}
	e := &entry{path: path}
	j.files = append(j.files, e)
	return e
}

// set completes an entry by what the file is now.
func (j *journal) set(e *entry, st *unix.Stat_t, check uint32, whole bool) {
	if e != nil {
		e.stamp, e.check = stampOf(st), check
		e.whole = whole && st.Nlink == 1 && st.Dev == j.dev
	}
}

// settle makes sure that whatever is changed from now on is told apart from what was
// noted.
func (j *journal) settle() {
	if j != nil && !j.tick() {
		j.now = 0
	}
}

// keep puts the index in its place.
func (j *journal) keep() {
	if j == nil || len(j.files) > maxEntries {
		return
	}
	for _, e := range j.files {
		e.racy = j.isRacy(e.ctime)
	}
	if _, err := j.file.Write(j.encode(j.boot)); err == nil {
		os.Rename(j.file.Name(), indexName(j.path)) //nolint:errcheck // it is a cache
	}
}

// close removes what was not kept.
func (j *journal) close() {
	if j == nil {
		return
	}
	j.file.Close()
	os.Remove(j.file.Name()) //nolint:errcheck // it may have been kept
}
