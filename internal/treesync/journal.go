package treesync

import (
	"crypto/rand"
	"os"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/procid"
	"golang.org/x/sys/unix"
)

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
	boot, err := procid.Boot()
	if err != nil {
		return nil
	}
	j := &journal{index: index{id: id}, path: path, boot: boot}
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
	rand.Read(id[:])
	return id
}

// reliable reports whether a file system keeps a ctime of its own for every file, and
// reports it as it is now: not what another host could have changed since.
func reliable(f *os.File) bool {
	var fs unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &fs) != nil {
		return false
	}
	// NFS is up to date for who opens a file, as is done here.
	return slices.Contains([]int64{
		unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.NFS_SUPER_MAGIC, lustreMagic, zfsMagic,
	}, int64(fs.Type))
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
		core.BestEffort(unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)) // a shorter one is one more try
	}
	j.now = first // its clock is a coarse one
	return true
}

// wholeSeconds is how much older a file has to be where a file system reports its ctime
// by seconds: clocks of several servers may be in it.
const wholeSeconds = 2e9

// isRacy reports whether a change after now might leave the ctime that a file has.
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
func (j *journal) set(e *entry, m *meta, st *unix.Stat_t, check uint32, whole bool) {
	if e != nil {
		e.bare = len(m.xattrs) == 0
		e.stamp, e.check = stampOf(st), check
		e.whole = whole && st.Nlink == 1 && st.Dev == j.dev
	}
}

// settle makes sure that whatever is changed from now on is distinguished from what was
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
		core.BestEffort(os.Rename(j.file.Name(), indexName(j.path))) // it is a cache
	}
}

// close removes what was not kept.
func (j *journal) close() {
	if j == nil {
		return
	}
	j.file.Close()
	fsutil.TryRemove(j.file.Name()) // it may have been kept
}
