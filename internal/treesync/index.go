package treesync

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/procid"
	"golang.org/x/sys/unix"
)

// index reports a tree that has travelled which version of each file that was. Both
// ends keep one beside their copy, with the name that their transfer has: so when the
// tree, or what has become of it, travels between these two again, neither has to
// read what is still the same there.
//
// That it is the same, its stamp reports: no program can set a file's ctime. What an
// index says is believed only where that holds (see journal), and until the machine is
// started again: a crash may keep what was written to a file, and not its ctime. It is a
// cache: without it all is read.
type index struct {
	id    transferID
	dev   uint64   // of the file system that holds it
	files []*entry // as they came in the stream
	// remote reports of an index that was read whether that file system is NFS.
	remote bool
}

// transferID names what has travelled.
type transferID [16]byte

// stamp reports a version of a file.
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
	// racy means that another change might have left the same stamp.
	racy bool
	// bare means that it has no attributes.
	bare bool
}

// same reports whether a file has the content still that it had.
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
		if e.bare {
			flags |= 4
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

var errIndex = errors.New("no index, or a damaged one")

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
		e.whole, e.racy, e.bare = f.b[0]&1 != 0, f.b[0]&2 != 0, f.b[0]&4 != 0
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
	boot, err := procid.Boot()
	if err != nil {
		return nil
	}
	st, err := os.Lstat(indexName(path))
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxIndex {
		return nil
	}
	b, err := os.ReadFile(indexName(path))
	if err != nil {
		return nil
	}
	x, err := decodeIndex(b, boot)
	var fs unix.Statfs_t
	if err != nil || unix.Statfs(indexName(path), &fs) != nil {
		return nil
	}
	x.remote = fs.Type == unix.NFS_SUPER_MAGIC
	return x
}

// Move gives a tree another path on the same file system, and what is known of how it
// travelled with it.
func Move(from, to string) error {
	err := os.Rename(from, to)
	if err == nil {
		core.BestEffort(os.Rename(indexName(from), indexName(to))) // without it, all is read the next time
	}
	return err
}

// forgetIndex removes what has turned out wrong.
func forgetIndex(path string) { fsutil.TryRemove(indexName(path)) } // it may be gone
