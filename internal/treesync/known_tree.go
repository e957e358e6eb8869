package treesync

import (
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// again is what an encoder knows of a tree that has travelled before, and what it notes
// for the next time.
type again struct {
	root    string   // of the tree, with a slash
	agreed  *agreed  // nil: none
	journal *journal // nil: none is kept
	content content  // of the file
	kept    struct{ first, n int }
	waiting int // such files since the last word of them
}

// content is the checksum of what is in a file, as it comes.
type content struct {
	table *crc32.Table // nil: it is not wanted
	check uint32
	at    int64
	holes bool
}

func (c *content) begin() { c.check, c.at, c.holes = 0, 0, false }

func (c *content) add(at int64, b []byte) {
	if c.table != nil {
		c.holes = c.holes || at != c.at
		c.check, c.at = crc32.Update(c.check, c.table, b), at+int64(len(b))
	}
}

// whole reports whether that was all of a file of a size.
func (c *content) whole(size int64) bool { return c.table != nil && !c.holes && c.at == size }

// goOn has an encoder name what is the same at both ends, and keep an index for the
// next time. It is the caller's to close the journal.
func (e *encoder) goOn(path string, known *Known) error {
	e.root, e.agreed = filepath.Clean(path)+"/", known.agreed
	if _, err := identity(path); !known.indexed || err != nil {
		return nil
	}
	id := newTransferID()
	if e.journal = newJournal(path, id); e.journal == nil {
		return nil
	}
	e.content.table = e.table
	return e.record(recTransfer, id[:])
}

// keep reports whether a file is the same at both ends: then it is named by its number.
func (e *encoder) keep(dir int, name string, st *unix.Stat_t) (bool, error) {
	rel := strings.TrimPrefix(name, e.root)
	i, same := e.agreed.find(dir, rel, st)
	if !same {
		return false, nil
	}
	if noted := e.journal.add(rel); noted != nil {
		*noted = *e.agreed.index.files[i]
	}
	if i != e.kept.first+e.kept.n {
		if err := e.reportKept(); err != nil {
			return true, err
		}
		e.kept.first = i
	}
	e.kept.n++
	e.report(st.Size)
	return true, e.reportSoon()
}

// keptAtOnce is how many files that are the same are reported at once, for the receiver
// to copy them while more are looked at.
const keptAtOnce = 256

// reportSoon sends word of such files where many wait.
func (e *encoder) reportSoon() error {
	if e.waiting++; e.waiting < keptAtOnce {
		return nil
	}
	e.waiting = 0
	if err := e.reportKept(); err != nil {
		return err
	}
	return e.flush()
}

// reportKept sends what waits of that. Whatever is not such a file comes behind it.
func (e *encoder) reportKept() error {
	first, n := e.kept.first, e.kept.n
	if e.kept.n = 0; n == 0 {
		return nil
	}
	return e.record(recKept, binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(first)), uint32(n)))
}

// note begins the entry of a file that is sent.
func (e *encoder) note(name string) *entry {
	e.content.begin()
	return e.journal.add(strings.TrimPrefix(name, e.root))
}
