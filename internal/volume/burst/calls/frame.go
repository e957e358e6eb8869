package calls

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Op is what a client asks for.
type Op uint8

// Requests.
const (
	Lookup Op = iota + 1
	GetAttr
	SetAttr
	Create
	Mkdir
	Symlink
	Remove
	Rename
	OpenOp
	Release
	Read
	Write
	Flush
	Fsync
	List
	Space
	Cancel // ends the wait of the request ID; it has no reply
	Lock   // sets, tests or releases a lock
	Bye    // ends the session: the client has nothing open any more; it has no reply
)

// Bits of Request.Valid: what SetAttr sets.
const (
	SetMode = 1 << iota
	SetSize
	SetMtime
	SetOwner
)

// Bits of Request.Flags.
const (
	Exclusive = 1 << iota // Create fails where the name is taken; Rename replaces nothing
	Directory             // Remove is for a directory
	Truncate              // OpenOp empties the file
	Writing               // OpenOp, or Create of a file that is there, is for writing
	Append                // Write writes at the end of the file
	Wait                  // Lock waits until it can be set
	Test                  // Lock only looks what would keep it
	Whole                 // Lock, or Release, is about locks of flock
	// Owned has Flush release the locks of fcntl that its owner has on the file.
	Owned = Test
	// Grow has SetAttr make no file smaller.
	Grow = Append
)

// Types of Request.Mode of Lock, as those of fcntl on Linux.
const (
	LockRead uint32 = iota
	LockWrite
	LockNone // releases
)

// Request is one of a client.
type Request struct {
	ID           uint64
	Op           Op
	Flags, Valid uint8
	Ino, ToDir   uint64
	Mode         uint32
	UID, GID     uint32
	Off, Size    int64
	Mtime        int64
	// Owner is who has a lock, and PID its process there. A Lock is on the bytes from Off to Size, both
	// included. Flush with Owned, and Release with Whole, release all that an owner has on the file.
	Owner        uint64
	PID          uint32
	Name, ToName string
	Data         []byte
}

// Attr are the attributes of a node.
type Attr struct {
	Ino      uint64
	Mode     uint32 // with the type
	UID, GID uint32
	Nlink    uint32
	Size     int64
	Mtime    int64
	Ctime    int64
}

// Entry is a name in a directory.
type Entry struct {
	Name string
	Attr Attr
}

// Reply answers a request.
type Reply struct {
	ID      uint64
	Errno   uint32
	Attr    Attr
	Entries []Entry
	// Data are bytes that were read, or the target of a link.
	Data        []byte
	Total, Free int64
	// Lock keeps a lock that was tested from being set.
	Lock HeldLock
}

// HeldLock is a lock on a file.
type HeldLock struct {
	Type       uint32
	Start, End int64
	PID        uint32
}

// MaxData bounds the data of a request or a reply.
const MaxData = 4 << 20

const (
	maxFrame   = 256 << 20        // of a reply: the names of a large directory
	maxRequest = MaxData + 64<<10 // with names
)

type encoder struct{ b []byte }

func (e *encoder) u8(v uint8)   { e.b = append(e.b, v) }
func (e *encoder) u32(v uint32) { e.b = binary.LittleEndian.AppendUint32(e.b, v) }
func (e *encoder) u64(v uint64) { e.b = binary.LittleEndian.AppendUint64(e.b, v) }
func (e *encoder) i64(v int64)  { e.u64(uint64(v)) } // read back the same way
func (e *encoder) bytes(v []byte) {
	e.u32(uint32(len(v))) // at most maxFrame
	e.b = append(e.b, v...)
}

func (e *encoder) attr(a Attr) {
	e.u64(a.Ino)
	e.u32(a.Mode)
	e.u32(a.UID)
	e.u32(a.GID)
	e.u32(a.Nlink)
	e.i64(a.Size)
	e.i64(a.Mtime)
	e.i64(a.Ctime)
}

// finish gives the frame: its length, and what was encoded.
func (e *encoder) finish() []byte {
	binary.LittleEndian.PutUint32(e.b, uint32(len(e.b)-4)) // at most maxFrame
	return e.b
}

func newEncoder(size int) *encoder { return &encoder{b: make([]byte, 4, 4+size)} }

// Encode gives the request as a frame.
func (r *Request) Encode() []byte {
	e := newEncoder(112 + len(r.Name) + len(r.ToName) + len(r.Data))
	e.u64(r.ID)
	e.u8(uint8(r.Op))
	e.u8(r.Flags)
	e.u8(r.Valid)
	e.u64(r.Ino)
	e.u64(r.ToDir)
	e.u32(r.Mode)
	e.u32(r.UID)
	e.u32(r.GID)
	e.i64(r.Off)
	e.i64(r.Size)
	e.i64(r.Mtime)
	e.u64(r.Owner)
	e.u32(r.PID)
	e.bytes([]byte(r.Name))
	e.bytes([]byte(r.ToName))
	e.bytes(r.Data)
	return e.finish()
}

// Encode gives the reply as a frame.
func (r *Reply) Encode() []byte {
	e := newEncoder(128 + len(r.Data) + 80*len(r.Entries))
	e.u64(r.ID)
	e.u32(r.Errno)
	e.attr(r.Attr)
	e.i64(r.Total)
	e.i64(r.Free)
	e.u32(r.Lock.Type)
	e.i64(r.Lock.Start)
	e.i64(r.Lock.End)
	e.u32(r.Lock.PID)
	e.bytes(r.Data)
	e.u32(uint32(len(r.Entries))) // bounded by memory
	for _, n := range r.Entries {
		e.bytes([]byte(n.Name))
		e.attr(n.Attr)
	}
	return e.finish()
}

// errShort is about a frame that ends before its fields do.
var errShort = errors.New("a frame is too short")

type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.b) {
		d.err = errShort
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) u8() uint8 {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) u32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) i64() int64    { return int64(d.u64()) } // written the same way
func (d *decoder) bytes() []byte { return d.take(int(d.u32())) }

func (d *decoder) attr() Attr {
	return Attr{Ino: d.u64(), Mode: d.u32(), UID: d.u32(), GID: d.u32(), Nlink: d.u32(), Size: d.i64(), Mtime: d.i64(), Ctime: d.i64()}
}

// readFrame reads what an encoder finished. It allocates no more than has come.
func readFrame(r io.Reader, most uint32) (*decoder, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n > most {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	if n <= MaxData+4096 {
		b := make([]byte, n)
		_, err := io.ReadFull(r, b)
		return &decoder{b: b}, err
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(b) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	return &decoder{b: b}, err
}

// ReadRequest reads a request.
func ReadRequest(r io.Reader) (*Request, error) {
	d, err := readFrame(r, maxRequest)
	if err != nil {
		return nil, err
	}
	q := &Request{
		ID: d.u64(), Op: Op(d.u8()), Flags: d.u8(), Valid: d.u8(), Ino: d.u64(), ToDir: d.u64(), Mode: d.u32(), UID: d.u32(), GID: d.u32(),
		Off: d.i64(), Size: d.i64(), Mtime: d.i64(), Owner: d.u64(), PID: d.u32(), Name: string(d.bytes()), ToName: string(d.bytes()), Data: d.bytes(),
	}
	return q, d.err
}

// ReadReply reads a reply.
func ReadReply(r io.Reader) (*Reply, error) {
	d, err := readFrame(r, maxFrame)
	if err != nil {
		return nil, err
	}
	p := &Reply{ID: d.u64(), Errno: d.u32(), Attr: d.attr(), Total: d.i64(), Free: d.i64()}
	p.Lock = HeldLock{Type: d.u32(), Start: d.i64(), End: d.i64(), PID: d.u32()}
	p.Data = d.bytes()
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		p.Entries = append(p.Entries, Entry{Name: string(d.bytes()), Attr: d.attr()})
	}
	return p, d.err
}
