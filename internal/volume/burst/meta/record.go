package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// Do is what a record changes.
type Do string

// Changes that users make.
const (
	DoCreate   Do = "create"
	DoTruncate Do = "truncate"
	DoSetAttr  Do = "setattr"
	DoRename   Do = "rename"
	DoRemove   Do = "remove"
	DoPut      Do = "put" // queue a version as it is now
)

// Changes that users do not see.
const (
	DoFound   Do = "found"   // the remote has something new, or of a new version
	DoGone    Do = "gone"    // the remote no longer has it
	DoFetch   Do = "fetch"   // content of the remote follows as data
	DoFetched Do = "fetched" // it is complete
	DoEvict   Do = "evict"   // content that the remote has is no longer here
	DoForget  Do = "forget"  // a removed file that nobody has open
	DoBegin   Do = "begin"   // the first operation is about to be published
	DoDone    Do = "done"    // it was carried out

	DoBarrier    Do = "barrier"    // queue a checkpoint of everything that was done before
	DoGeneration Do = "generation" // the remote has that checkpoint, and nothing after it
)

// FetchedData marks records of data that were read from the remote.
const FetchedData = 1

// Change is the payload of a record of names and attributes.
type Change struct {
	Do     Do             `json:"do"`
	Ino    uint64         `json:"ino,omitempty"`
	Dir    uint64         `json:"dir,omitempty"`
	Name   string         `json:"name,omitempty"`
	ToDir  uint64         `json:"to_dir,omitempty"`
	ToName string         `json:"to_name,omitempty"`
	Kind   remote.Kind    `json:"kind,omitempty"`
	Mode   *uint32        `json:"mode,omitempty"`
	UID    uint32         `json:"uid,omitempty"`
	GID    uint32         `json:"gid,omitempty"`
	Size   int64          `json:"size,omitempty"`
	Mtime  *int64         `json:"mtime,omitempty"`
	Time   int64          `json:"time,omitempty"`
	Target string         `json:"target,omitempty"`
	Stays  bool           `json:"stays,omitempty"` // of DoCreate: the remote never gets it
	V      remote.Version `json:"v"`

	// Sum is the digest of what DoBegin has sent.
	Sum string `json:"sum,omitempty"`

	// Number is that of a checkpoint.
	Number int      `json:"number,omitempty"`
	Also   []string `json:"also,omitempty"` // names that belong to it, beside those that match
	// Found are names that others have changed, of DoGeneration.
	Found []Conflict `json:"found,omitempty"`
	// Replaces is the number of the last operation, where DoPut replaces it.
	Replaces uint64 `json:"replaces,omitempty"`
	// Of DoDone, beside Dir, Name and V, where the remote has it now.
	Skipped  bool   `json:"skipped,omitempty"`  // nothing was to be done
	Conflict bool   `json:"conflict,omitempty"` // another program was first
	Partial  string `json:"partial,omitempty"`
	Lost     bool   `json:"lost,omitempty"` // another program has removed it from the remote
	// Versions are the new ones of what is in a directory, where moving that has changed them.
	Versions map[string]remote.Version `json:"versions,omitempty"`

	// Client and Request are whose request it answers.
	Client  uint64 `json:"client,omitempty"`
	Request uint64 `json:"request,omitempty"`
}

// Encode gives the change as the payload of a record.
func (c Change) Encode() ([]byte, error) { return json.Marshal(c) }

// Apply carries out a record of the journal.
func (s *State) Apply(r buffer.Record) error {
	if r.Kind == buffer.Data {
		return s.applyData(r)
	}
	var c Change
	if err := json.Unmarshal(r.Payload, &c); err != nil {
		return err
	}
	return s.Change(r.Seq, c)
}

func (s *State) applyData(r buffer.Record) error {
	n := s.nodes[r.Ino]
	if n == nil || n.Kind != remote.File {
		return fmt.Errorf("data of %d, which is no file", r.Ino)
	}
	s.Data(n, r)
	return nil
}

// Data notes that a record has bytes of a file.
func (s *State) Data(n *Node, r buffer.Record) {
	n.Extents = insert(n.Extents, Extent{Off: r.Off, Len: r.Place.Len, Rec: r.Place})
	if r.Flag == FetchedData {
		return
	}
	n.Size = max(n.Size, r.Off+r.Place.Len)
	n.Mtime, n.Ctime = r.Time, r.Time
	if n.Stays {
		return
	}
	n.Dirty = true
	n.Fresh += r.Place.Len
}

// Change carries out a change, which has the number seq in the journal.
func (s *State) Change(seq uint64, c Change) error {
	if c.Do == DoCreate || c.Do == DoFound && s.nodes[c.Ino] == nil {
		return s.create(seq, c)
	}
	if c.Do == DoDone {
		return s.done(seq, c)
	}
	n := s.nodes[c.Ino]
	if n == nil {
		return fmt.Errorf("%s of %d, which is not there", c.Do, c.Ino)
	}
	made := uint64(0)
	switch c.Do {
	case DoTruncate:
		if made = n.Ino; c.Size > 0 { // a program that makes a file may empty one that is there
			made = uint64(n.Size) // where the data of an append go; never negative
		}
		n.Extents, n.Size, n.Local = cut(n.Extents, c.Size), c.Size, true
		n.Mtime, n.Ctime, n.Dirty = c.Time, c.Time, !n.Stays
	case DoSetAttr:
		s.setAttr(seq, n, c)
	case DoRename:
		if err := s.rename(seq, n, c); err != nil {
			return err
		}
	case DoRemove:
		s.remove(seq, n, c)
	case DoPut:
		s.put(seq, n, c)
	case DoFound:
		n.Mode, n.UID, n.GID, n.Target, n.Ctime = *c.Mode, c.UID, c.GID, c.Target, c.Time
		if n.Version != c.V {
			n.Local, n.Extents, n.Sum = false, nil, ""
		}
		n.Size, n.Mtime, n.Version = c.Size, *c.Mtime, c.V
	case DoGone:
		s.gone(n)
	case DoFetch, DoEvict:
		n.Local, n.Extents = false, nil
	case DoFetched:
		n.Local = true
	case DoForget:
		s.displace(n)
		delete(s.nodes, n.Ino)
	case DoBarrier:
		s.barrier = c.Number
		s.enqueue(&Op{Seq: seq, Kind: Barrier, Ino: Root, Number: c.Number, Also: c.Also, Time: c.Time})
	case DoGeneration:
		s.generation, s.barrier = c.Number, c.Number
		s.Conflicts = append(s.Conflicts, c.Found...)
	case DoBegin:
		o := s.First()
		if o == nil || o.Ino != c.Ino {
			return errors.New("what begins is not the first of the queue")
		}
		o.Begun, o.Partial, o.Sum = c.V, c.Partial, c.Sum
	default:
		return fmt.Errorf("unknown change %q", c.Do)
	}
	s.answer(c.Client, c.Request, made)
	return nil
}

func (s *State) create(seq uint64, c Change) error {
	dir := s.nodes[c.Dir]
	if dir == nil || dir.children == nil {
		return fmt.Errorf("%s in %d, which is no directory", c.Do, c.Dir)
	}
	if dir.children[c.Name] != 0 {
		return fmt.Errorf("%s of %q in %d, where it is", c.Do, c.Name, c.Dir)
	}
	n := &Node{
		Ino: c.Ino, Kind: c.Kind, Parent: c.Dir, Name: c.Name, Mode: *c.Mode, UID: c.UID, GID: c.GID,
		Size: c.Size, Mtime: c.Time, Ctime: c.Time, Target: c.Target,
	}
	if c.Mtime != nil {
		n.Mtime = *c.Mtime
	}
	if c.Kind == remote.Dir {
		n.children, n.remote = map[string]uint64{}, map[string]uint64{}
	}
	s.nodes[n.Ino] = n
	s.next = max(s.next, n.Ino+1)
	dir.children[n.Name] = n.Ino
	if c.Do == DoFound {
		n.Version = c.V
		s.place(n, c.Dir, c.Name)
		return nil
	}
	dir.Mtime, dir.Ctime = c.Time, c.Time
	n.Ours, n.Stays = true, c.Stays
	switch {
	case c.Kind == remote.File:
		n.Local, n.Dirty = true, !n.Stays
	case n.Stays:
	case c.Kind == remote.Dir:
		s.enqueue(&Op{Seq: seq, Kind: Mkdir, Ino: n.Ino, Dir: c.Dir, Name: c.Name, Mode: n.Mode, Time: c.Time})
	case c.Kind == remote.Link:
		s.enqueue(&Op{Seq: seq, Kind: Symlink, Ino: n.Ino, Dir: c.Dir, Name: c.Name, Time: c.Time})
	default:
		return fmt.Errorf("cannot create kind %d", c.Kind)
	}
	s.answer(c.Client, c.Request, n.Ino)
	return nil
}

func (s *State) enqueue(o *Op) {
	s.queue = append(s.queue, o)
	for _, ino := range []uint64{o.Ino, o.Replaced} {
		if n := s.nodes[ino]; n != nil {
			n.Pending++
		}
	}
}

func (s *State) setAttr(seq uint64, n *Node, c Change) {
	o := &Op{Seq: seq, Kind: SetAttr, Ino: n.Ino, Time: c.Time}
	if c.Mode != nil {
		n.Mode = *c.Mode
	}
	if c.Mtime != nil {
		n.Mtime = *c.Mtime
	}
	n.Ctime = c.Time
	if n.Dirty || n.Stays || !n.Linked() || n.Ino == Root {
		return // what is published next has it; the top directory is the user's
	}
	o.Mode, o.Mtime = n.Mode, n.Mtime
	s.enqueue(o)
}

func (s *State) put(seq uint64, n *Node, c Change) {
	if !n.Linked() {
		n.Dirty, n.Fresh = false, 0
		return
	}
	o := &Op{
		Seq: seq, Kind: Put, Ino: n.Ino, Dir: n.Parent, Name: n.Name, Time: c.Time,
		Size: n.Size, Mode: n.Mode, Mtime: n.Mtime, Extents: n.Extents[:len(n.Extents):len(n.Extents)], Bytes: n.Fresh,
	}
	n.Dirty, n.Fresh = false, 0
	if last := len(s.queue) - 1; c.Replaces != 0 && last >= 0 && s.queue[last].Seq == c.Replaces {
		o.Bytes += s.queue[last].Bytes
		o.Time, o.Since = s.queue[last].Time, s.queue[last].Since
		if o.Since == 0 {
			o.Since = s.queue[last].Seq
		}
		s.queue[last] = o
		return
	}
	s.enqueue(o)
}

func (s *State) unlink(n *Node) {
	if dir := s.nodes[n.Parent]; dir != nil && dir.children[n.Name] == n.Ino {
		delete(dir.children, n.Name)
	}
	n.Parent, n.Name = 0, ""
}

func (s *State) remove(seq uint64, n *Node, c Change) {
	o := &Op{Seq: seq, Kind: Unlink, Ino: n.Ino, Dir: n.Parent, Name: n.Name, Time: c.Time}
	if n.Kind == remote.Dir {
		o.Kind = Rmdir
	}
	if dir := s.nodes[n.Parent]; dir != nil {
		dir.Mtime, dir.Ctime = c.Time, c.Time
	}
	s.unlink(n)
	n.Ctime, n.Removed = c.Time, true
	s.drop(n)
	if n.There || n.Pending > 0 {
		s.enqueue(o)
	}
}

// gone removes what the remote no longer has, with all that is in it.
func (s *State) gone(n *Node) {
	for _, ino := range n.children {
		s.gone(s.nodes[ino])
	}
	s.unlink(n)
	s.displace(n)
}

// Settled reports whether the remote has all of a node, and of everything in it.
func (s *State) Settled(n *Node) bool {
	for _, ino := range n.children {
		if !s.Settled(s.nodes[ino]) {
			return false
		}
	}
	return n.Clean()
}

// drop notes that what was written to a node since its last Put is for nobody.
func (s *State) drop(n *Node) { n.Dirty, n.Fresh = false, 0 }

func (s *State) rename(seq uint64, n *Node, c Change) error {
	to := s.nodes[c.ToDir]
	if to == nil || to.children == nil {
		return fmt.Errorf("rename into %d, which is no directory", c.ToDir)
	}
	for up := to; up != nil && up.Ino != Root; up = s.nodes[up.Parent] {
		if up == n {
			return errors.New("rename of a directory into itself")
		}
	}
	o := &Op{Seq: seq, Kind: Rename, Ino: n.Ino, Dir: c.ToDir, Name: c.ToName, Time: c.Time}
	if old := s.nodes[to.children[c.ToName]]; old != nil {
		o.Replaced = old.Ino
		s.unlink(old)
		s.drop(old)
		n.Over = !n.Stays
	}
	if dir := s.nodes[n.Parent]; dir != nil {
		dir.Mtime, dir.Ctime = c.Time, c.Time
	}
	s.unlink(n)
	n.Parent, n.Name, n.Ctime = c.ToDir, c.ToName, c.Time
	to.children[c.ToName] = n.Ino
	to.Mtime, to.Ctime = c.Time, c.Time
	if !n.Stays {
		s.enqueue(o)
	}
	return nil
}

// done removes the first operation of the queue, and notes what the remote has now.
func (s *State) done(seq uint64, c Change) error {
	o := s.First()
	if o == nil || o.Ino != c.Ino {
		return errors.New("what is done is not the first of the queue")
	}
	s.queue[0] = nil
	s.queue = s.queue[1:]
	n, old := s.nodes[o.Ino], s.nodes[o.Replaced]
	if old != nil {
		old.Pending--
	}
	if n == nil {
		return nil
	}
	n.Pending--
	if o.Kind == Barrier {
		s.generation = o.Number
		return nil
	}
	if c.Conflict {
		dir := "."
		if d := s.nodes[o.Dir]; d != nil {
			dir = s.Path(d)
		}
		what := Conflict{Path: path(dir, o.Name), What: o.Kind, Time: c.Time}
		if c.Name != o.Name {
			what.As = c.Name
		}
		s.Conflicts = append(s.Conflicts, what)
	}
	switch {
	case c.Skipped:
		return nil
	case c.Lost: // what is here of it is stored again
		s.displace(n)
		n.Dirty = n.Kind == remote.File && n.Local && n.Linked()
		return nil
	}
	switch o.Kind {
	case Unlink, Rmdir:
		s.displace(n)
	case SetAttr:
		if n.There {
			n.Version = c.V
		}
	default:
		if old != nil && !c.Conflict {
			s.displace(old)
		}
		s.place(n, c.Dir, c.Name)
		n.Version = c.V
		for below, v := range c.Versions {
			if f := s.below(n, below); f != nil && f.Kind != remote.Dir {
				f.Version = v
			}
		}
	}
	if o.Kind == Put {
		n.Sum = o.Sum
		s.Files++
		s.Published += o.Bytes
	}
	return nil
}

// below gives what the remote has at a path from a directory on, or nil.
func (s *State) below(n *Node, path string) *Node {
	for name := range strings.SplitSeq(path, "/") {
		if n == nil {
			return nil
		}
		n = s.nodes[n.remote[name]]
	}
	return n
}
