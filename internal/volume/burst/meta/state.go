package meta

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// OpKind is what is to be done on the remote.
type OpKind string

// Kinds of operations.
const (
	Put     OpKind = "put" // publish a version of a file
	Mkdir   OpKind = "mkdir"
	Symlink OpKind = "symlink"
	Rename  OpKind = "rename"
	Unlink  OpKind = "unlink"
	Rmdir   OpKind = "rmdir"
	SetAttr OpKind = "setattr"
	Barrier OpKind = "barrier" // record a checkpoint
)

// Op is one change that the remote lacks. They are carried out in order, one at a time.
type Op struct {
	Seq uint64 `json:"seq"` // of its record
	// Since is the Seq of the first Put that it has replaced; 0: it has replaced none.
	Since uint64 `json:"since,omitempty"`
	Kind  OpKind `json:"kind"`
	Ino   uint64 `json:"ino"`
	// Dir and Name are where it is, or is to be: for Rename, the new place.
	Dir      uint64 `json:"dir"`
	Name     string `json:"name"`
	Replaced uint64 `json:"replaced,omitempty"` // by Rename
	Number   int    `json:"number,omitempty"`   // of Barrier
	// Also are names that belong to a Barrier's checkpoint, beside those that match.
	Also []string `json:"also,omitempty"`
	Time int64    `json:"time"` // when it was queued

	// Of Put, the version; of SetAttr, Mode and Mtime where they were set.
	Size    int64    `json:"size,omitempty"`
	Mode    uint32   `json:"mode,omitempty"`
	Mtime   int64    `json:"mtime,omitempty"`
	Extents []Extent `json:"extents,omitempty"`
	Bytes   int64    `json:"bytes,omitempty"` // that are new in it

	// Begun is the version that may have been published under the name Partial already.
	Begun   remote.Version `json:"begun"`
	Partial string         `json:"partial,omitempty"`
	Sum     string         `json:"sum,omitempty"` // digest of that version
}

// Conflict is something that another program changed while a change of ours was undrained.
type Conflict struct {
	Path string `json:"path"`
	// As is the name, beside it, at which ours is; "" where nothing of ours was to be stored.
	As   string `json:"as,omitempty"`
	What OpKind `json:"what"`
	Time int64  `json:"time"`
}

// State is everything that a journal amounts to.
type State struct {
	nodes map[uint64]*Node
	queue []*Op
	next  uint64 // number of the next node

	generation int // the newest checkpoint that the remote has; 0: none
	barrier    int // the newest that was queued

	Conflicts []Conflict
	// Published counts bytes and files that were drained.
	Published, Files int64

	answered map[uint64]*answered // by client
}

// answered are the requests of a client that were carried out, with the number of the
// node that they made.
type answered struct {
	Made  map[uint64]uint64 `json:"made"`
	Order []uint64          `json:"order,omitempty"` // of the answers
}

// remembered is how many answers to a client are known, the newest ones. A request may have waited for long,
// so that its number is no sign of the age of its answer.
const remembered = 16384

// New gives the state of an empty journal. The top directory is as the remote's.
func New() *State {
	s := &State{nodes: map[uint64]*Node{}, next: Root + 1, answered: map[uint64]*answered{}}
	s.nodes[Root] = &Node{Ino: Root, Kind: remote.Dir, Mode: 0o755, There: true, children: map[string]uint64{}, remote: map[string]uint64{}}
	return s
}

// Node gives a node by its number, or nil.
func (s *State) Node(ino uint64) *Node { return s.nodes[ino] }

// Nodes calls visit for all nodes.
func (s *State) Nodes(visit func(*Node)) {
	for _, n := range s.nodes {
		visit(n)
	}
}

// Next is the number that the next node gets.
func (s *State) Next() uint64 { return s.next }

// Child gives what has a name in a directory, or nil.
func (s *State) Child(dir *Node, name string) *Node { return s.nodes[dir.children[name]] }

// Children gives what is in a directory, by name.
func (s *State) Children(dir *Node) []*Node {
	list := make([]*Node, 0, len(dir.children))
	for _, name := range slices.Sorted(maps.Keys(dir.children)) {
		list = append(list, s.nodes[dir.children[name]])
	}
	return list
}

// Empty reports whether nothing is in a directory.
func (s *State) Empty(dir *Node) bool { return len(dir.children) == 0 }

// Known gives the node that the remote has at a name in a directory, wherever users see
// it, or nil. The first operation of the queue may have put it there already.
func (s *State) Known(dir *Node, name string) *Node {
	if o := s.First(); o != nil && o.Dir == dir.Ino && o.Name == name && (o.Kind == Put || o.Kind == Mkdir || o.Kind == Symlink || o.Kind == Rename) {
		return s.nodes[o.Ino]
	}
	return s.nodes[dir.remote[name]]
}

// First is what has to be done on the remote next, or nil.
func (s *State) First() *Op {
	if len(s.queue) == 0 {
		return nil
	}
	return s.queue[0]
}

// Head is the number of the oldest change that the remote lacks; 0: there is none.
func (s *State) Head() uint64 {
	switch o := s.First(); {
	case o == nil:
		return 0
	case o.Since != 0:
		return o.Since
	default:
		return o.Seq
	}
}

// Generation is the number of the newest checkpoint that the remote has, and Barrier that of the newest
// that was queued; 0: there is none.
func (s *State) Generation() int { return s.generation }

// Barrier is described at Generation.
func (s *State) Barrier() int { return s.barrier }

// Queue gives all that the remote lacks, in order. It must not be changed.
func (s *State) Queue() []*Op { return s.queue }

// LastPut gives the newest operation if it is a Put of a file, else nil.
func (s *State) LastPut(ino uint64) *Op {
	if len(s.queue) == 0 {
		return nil
	}
	if o := s.queue[len(s.queue)-1]; o.Kind == Put && o.Ino == ino {
		return o
	}
	return nil
}

// Undrained is how many written bytes the remote lacks.
func (s *State) Undrained() (bytes int64) {
	for _, o := range s.queue {
		bytes += o.Bytes
	}
	for _, n := range s.nodes {
		if n.Linked() {
			bytes += n.Fresh
		}
	}
	return bytes
}

// Stay is how many bytes of files the remote never gets.
func (s *State) Stay() (bytes int64) {
	for _, n := range s.nodes {
		if n.Stays && n.Linked() {
			bytes += n.Size
		}
	}
	return bytes
}

// Drained reports whether the remote lacks nothing.
func (s *State) Drained() bool {
	if len(s.queue) > 0 {
		return false
	}
	for _, n := range s.nodes {
		if n.Dirty && n.Linked() {
			return false
		}
	}
	return true
}

// Answered reports whether a request of a client was carried out, and what it made. Requests have numbers
// from 1 on.
func (s *State) Answered(client, request uint64) (made uint64, was bool) {
	a := s.answered[client]
	if a == nil {
		return 0, false
	}
	made, was = a.Made[request]
	return made, was
}

func (s *State) answer(client, request, made uint64) {
	if client == 0 || request == 0 {
		return
	}
	a := s.answered[client]
	if a == nil {
		a = &answered{Made: map[uint64]uint64{}}
		s.answered[client] = a
	}
	if _, was := a.Made[request]; !was {
		a.Order = append(a.Order, request)
	}
	a.Made[request] = made
	if len(a.Order) > remembered {
		delete(a.Made, a.Order[0])
		a.Order = a.Order[1:]
	}
}

// index is a State as WriteIndex keeps it.
type index struct {
	Format    int                  `json:"format"`
	Next      uint64               `json:"next"`
	Nodes     []*Node              `json:"nodes"`
	Queue     []*Op                `json:"queue"`
	Conflicts []Conflict           `json:"conflicts,omitempty"`
	Published int64                `json:"published"`
	Files     int64                `json:"files"`
	Answered  map[uint64]*answered `json:"answered,omitempty"`

	Generation int `json:"generation,omitempty"`
	Barrier    int `json:"barrier,omitempty"`
}

const format = 1

// Encode gives the state as an index.
func (s *State) Encode() ([]byte, error) {
	x := index{Format: format, Next: s.next, Queue: s.queue, Conflicts: s.Conflicts, Published: s.Published, Files: s.Files, Answered: s.answered, Generation: s.generation, Barrier: s.barrier}
	for _, ino := range slices.Sorted(maps.Keys(s.nodes)) {
		x.Nodes = append(x.Nodes, s.nodes[ino])
	}
	return json.Marshal(x)
}

// Decode reads what Encode gave.
func Decode(raw []byte) (*State, error) {
	var x index
	if err := json.Unmarshal(raw, &x); err != nil {
		return nil, err
	}
	if x.Format != format {
		return nil, fmt.Errorf("the index has format %d, and this version of bee reads %d", x.Format, format)
	}
	s := New()
	s.next, s.queue, s.Conflicts, s.Published, s.Files = x.Next, x.Queue, x.Conflicts, x.Published, x.Files
	s.generation, s.barrier = x.Generation, x.Barrier
	if x.Answered != nil {
		s.answered = x.Answered
	}
	for _, a := range s.answered {
		if len(a.Order) != len(a.Made) { // an earlier version knew no order
			a.Order = slices.Sorted(maps.Keys(a.Made))
		}
	}
	for _, n := range x.Nodes {
		if n.Kind == remote.Dir {
			n.children, n.remote = map[string]uint64{}, map[string]uint64{}
		}
		s.nodes[n.Ino] = n
	}
	for _, n := range x.Nodes {
		if n.Ino == Root {
			continue
		}
		if n.Parent != 0 {
			dir := s.nodes[n.Parent]
			if dir == nil || dir.children == nil {
				return nil, fmt.Errorf("file %d is in %d, which is no directory", n.Ino, n.Parent)
			}
			dir.children[n.Name] = n.Ino
		}
		if n.There {
			s.place(n, n.At, n.As)
		}
	}
	return s, nil
}

// place notes where the remote has a node.
func (s *State) place(n *Node, at uint64, as string) {
	s.displace(n)
	n.There, n.At, n.As = true, at, as
	if dir := s.nodes[at]; dir != nil && dir.remote != nil {
		dir.remote[as] = n.Ino
	}
}

// displace notes that the remote does not have a node.
func (s *State) displace(n *Node) {
	if dir := s.nodes[n.At]; n.There && dir != nil && dir.remote[n.As] == n.Ino {
		delete(dir.remote, n.As)
	}
	n.There, n.At, n.As = false, 0, ""
}
