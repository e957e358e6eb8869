// Package meta is the metadata of a burst buffer: names, attributes, where the bytes of
// files are, and what the remote lacks, in order. All of it changes by records alone:
// a replay of the journal has what its writer had. The package is pure: it reads no
// file, and knows nothing of mounts.
package meta

import (
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// Root is the number of the top directory.
const Root = 1

// Node is a file, a directory or a link.
type Node struct {
	Ino  uint64      `json:"ino"`
	Kind remote.Kind `json:"kind"`
	// Parent and Name are where users see it; Parent is 0 once it is removed.
	Parent uint64 `json:"parent,omitempty"`
	Name   string `json:"name,omitempty"`
	Mode   uint32 `json:"mode"`
	UID    uint32 `json:"uid"`
	GID    uint32 `json:"gid"`
	Size   int64  `json:"size,omitempty"`
	Mtime  int64  `json:"mtime"`
	Ctime  int64  `json:"ctime"`
	Target string `json:"target,omitempty"`

	// There is whether the remote has it, of which Version, and At and As where: the
	// directory and the name there, which trail behind Parent and Name.
	There   bool           `json:"there,omitempty"`
	At      uint64         `json:"at,omitempty"`
	As      string         `json:"as,omitempty"`
	Version remote.Version `json:"version"`
	// Sum is the digest of that version of a file, where it was published from here.
	Sum string `json:"sum,omitempty"`

	// Local is whether Extents are its whole content; else the remote has it.
	Local   bool     `json:"local,omitempty"`
	Extents []Extent `json:"extents,omitempty"`
	// Dirty is whether it changed since the last Put was queued, Fresh by how many bytes.
	Dirty bool  `json:"dirty,omitempty"`
	Fresh int64 `json:"fresh,omitempty"`
	// Pending counts what is queued about it.
	Pending int `json:"pending,omitempty"`
	// Removed is set once it was removed, and not replaced.
	Removed bool `json:"removed,omitempty"`
	// Ours is whether it was made here, and not found on the remote.
	Ours bool `json:"ours,omitempty"`
	// Stays is whether the remote never gets it.
	Stays bool `json:"stays,omitempty"`
	// Over is set once it took the place of another file.
	Over bool `json:"over,omitempty"`

	children map[string]uint64 // of a directory
	remote   map[string]uint64 // what is known to be in it on the remote
}

// Clean reports whether the remote has all of the node.
func (n *Node) Clean() bool { return !n.Dirty && n.Pending == 0 && n.There }

// Names is how many names a directory has.
func (n *Node) Names() int { return len(n.children) }

// Linked reports whether the node has a name.
func (n *Node) Linked() bool { return n.Parent != 0 || n.Ino == Root }

// Extent is a part of a file in the journal.
type Extent struct {
	Off  int64        `json:"o"`
	Len  int64        `json:"n"`
	Skip int64        `json:"k,omitempty"` // bytes of the record before it
	Rec  buffer.Place `json:"r"`
}

// End is the offset behind it.
func (e Extent) End() int64 { return e.Off + e.Len }

// insert puts an extent over what was there. The slice it gives shares nothing with that
// of before, unless it only grew.
func insert(list []Extent, e Extent) []Extent {
	if len(list) == 0 || list[len(list)-1].End() <= e.Off {
		return append(list, e)
	}
	first := find(list, e.Off)
	out := make([]Extent, first, len(list)+2)
	copy(out, list)
	rest := list[first:]
	if len(rest) > 0 && rest[0].Off < e.Off { // its beginning stays
		head := rest[0]
		head.Len = e.Off - head.Off
		out = append(out, head)
	}
	out = append(out, e)
	for _, old := range rest {
		if old.End() <= e.End() {
			continue
		}
		if cut := e.End() - old.Off; cut > 0 { // its end stays
			old.Off, old.Skip, old.Len = old.Off+cut, old.Skip+cut, old.Len-cut
		}
		out = append(out, old)
	}
	return out
}

// cut removes what is behind a size.
func cut(list []Extent, size int64) []Extent {
	i := find(list, size)
	out := slices.Clone(list[:min(i+1, len(list))])
	if i < len(list) {
		if out[i].Off >= size {
			return out[:i]
		}
		out[i].Len = size - out[i].Off
	}
	return out
}

// find gives the first extent that ends behind an offset.
func find(list []Extent, off int64) int {
	i, _ := slices.BinarySearchFunc(list, off, func(e Extent, off int64) int {
		if e.End() <= off {
			return -1
		}
		return 1
	})
	return i
}

// Between gives the extents that have bytes of [off, end).
func Between(list []Extent, off, end int64) []Extent {
	i := find(list, off)
	j := i
	for j < len(list) && list[j].Off < end {
		j++
	}
	return list[i:j]
}

// ReadAt fills p with what extents have from an offset on, and zeros for holes.
func ReadAt(list []Extent, p []byte, off int64, read func(e Extent, p []byte) error) error {
	clear(p)
	for _, e := range Between(list, off, off+int64(len(p))) {
		at := e.Off - off
		if at < 0 {
			e.Skip, at = e.Skip-at, 0
		}
		if err := read(e, p[at:min(e.End()-off, int64(len(p)))]); err != nil {
			return err
		}
	}
	return nil
}

// path joins names.
func path(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}

// Path is the name that users see, from the top directory on; "" once it is removed.
func (s *State) Path(n *Node) string {
	if n.Ino == Root {
		return "."
	}
	var names []string
	for ; n.Ino != Root; n = s.nodes[n.Parent] {
		if n.Parent == 0 || len(names) > len(s.nodes) {
			return ""
		}
		names = append(names, n.Name)
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// RemotePath is where the remote has a node; false where it does not.
func (s *State) RemotePath(n *Node) (string, bool) {
	if n == nil || !n.There {
		return "", false
	}
	if n.Ino == Root {
		return ".", true
	}
	dir, is := s.RemotePath(s.nodes[n.At])
	return path(dir, n.As), is
}
