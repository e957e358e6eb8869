package mount

import (
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// validFor is how long the kernel may use what it knows of names and attributes of a volume
// of one host. What programs on this host do, it knows at once. Where there are several hosts, it asks
// each time, and has no content.
const validFor = time.Second

// files answers the kernel with what the I/O process replies.
type files struct {
	fuse.RawFileSystem
	l      *link
	shared bool // with other hosts
	// uid and gid are the only ids that there are in a private mount; else they are 0, as all count.
	uid, gid uint32

	mu   sync.Mutex
	last uint64
	dirs map[uint64]*listing // by handle
}

// listing is what an open directory had when its reader began; without entries, not even
// "." and "..", before that.
type listing struct{ entries []calls.Entry }

func newFiles(l *link) *files {
	f := &files{RawFileSystem: fuse.NewDefaultRawFileSystem(), l: l, shared: l.c.Shared, dirs: map[uint64]*listing{}}
	if l.c.Private {
		f.uid, f.gid = uint32(os.Getuid()), uint32(os.Getgid())
	}
	return f
}

func (f *files) String() string { return "bee" }

// call has a request answered. cancel is closed once the program gets a signal.
func (f *files) call(cancel <-chan struct{}, h *fuse.InHeader, q *calls.Request) (*calls.Reply, fuse.Status) {
	p, errno := f.l.call(cancel, int(h.Pid), q)
	return p, fuse.Status(errno)
}

// group returns the group of a file as programs see it. The kernel refuses writes to files of a group that
// a private mount lacks, such as that of a project; what the user owns is then of the user's own group.
func (f *files) group(a *calls.Attr) uint32 {
	if f.uid != 0 && a.UID == f.uid {
		return f.gid
	}
	return a.GID
}

func (f *files) fill(a *calls.Attr, out *fuse.Attr) {
	out.Ino, out.Mode, out.Size, out.Blocks, out.Blksize, out.Nlink = a.Ino, a.Mode, uint64(a.Size), uint64(a.Size+511)/512, 1<<20, a.Nlink // a size is positive
	out.Uid, out.Gid = a.UID, f.group(a)
	mtime, ctime := time.Unix(0, a.Mtime), time.Unix(0, a.Ctime)
	out.SetTimes(&mtime, &mtime, &ctime)
}

func (f *files) entry(p *calls.Reply, out *fuse.EntryOut) {
	out.NodeId = p.Attr.Ino
	f.fill(&p.Attr, &out.Attr)
	out.SetEntryTimeout(f.valid())
	out.SetAttrTimeout(f.valid())
}

func (f *files) valid() time.Duration {
	if f.shared {
		return 0
	}
	return validFor
}

// openFlags are the kernel's for an open file.
func (f *files) openFlags() uint32 {
	if f.shared {
		return fuse.FOPEN_DIRECT_IO
	}
	return 0
}

func (f *files) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	p, s := f.call(cancel, h, &calls.Request{Op: calls.Lookup, Ino: h.NodeId, Name: name})
	if s.Ok() {
		f.entry(p, out)
	}
	return s
}

func (f *files) Forget(uint64, uint64) {}

func (f *files) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	p, s := f.call(cancel, &in.InHeader, &calls.Request{Op: calls.GetAttr, Ino: in.NodeId})
	if s.Ok() {
		f.fill(&p.Attr, &out.Attr)
		out.SetTimeout(f.valid())
	}
	return s
}

func (f *files) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	q := &calls.Request{Op: calls.SetAttr, Ino: in.NodeId}
	if mode, is := in.GetMode(); is {
		q.Valid, q.Mode = q.Valid|calls.SetMode, mode
	}
	if size, is := in.GetSize(); is {
		q.Valid, q.Size = q.Valid|calls.SetSize, int64(size) // the I/O process refuses what is negative
	}
	if mtime, is := in.GetMTime(); is {
		q.Valid, q.Mtime = q.Valid|calls.SetMtime, mtime.UnixNano()
	}
	uid, isUID := in.GetUID()
	gid, isGID := in.GetGID()
	if isUID || isGID {
		p, s := f.call(cancel, &in.InHeader, &calls.Request{Op: calls.GetAttr, Ino: in.NodeId})
		if !s.Ok() {
			return s
		}
		q.Valid, q.UID, q.GID = q.Valid|calls.SetOwner, p.Attr.UID, p.Attr.GID
		if isUID {
			q.UID = uid
		}
		if isGID && gid != f.group(&p.Attr) {
			q.GID = gid
		}
	}
	p, s := f.call(cancel, &in.InHeader, q)
	if s.Ok() {
		f.fill(&p.Attr, &out.Attr)
		out.SetTimeout(f.valid())
	}
	return s
}

func (f *files) create(cancel <-chan struct{}, h *fuse.InHeader, op calls.Op, name string, mode uint32, flags uint8, data []byte) (*calls.Reply, fuse.Status) {
	return f.call(cancel, h, &calls.Request{Op: op, Ino: h.NodeId, Name: name, Mode: mode, UID: h.Uid, GID: h.Gid, Flags: flags, Data: data})
}

func (f *files) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	flags := uint8(0)
	if in.Flags&syscall.O_EXCL != 0 {
		flags |= calls.Exclusive
	}
	if in.Flags&syscall.O_TRUNC != 0 {
		flags |= calls.Truncate
	}
	if in.Flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		flags |= calls.Writing
	}
	p, s := f.create(cancel, &in.InHeader, calls.Create, name, in.Mode, flags, nil)
	if s.Ok() {
		f.entry(p, &out.EntryOut)
		out.OpenFlags = f.openFlags()
	}
	return s
}

func (f *files) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	if in.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return fuse.EPERM
	}
	p, s := f.create(cancel, &in.InHeader, calls.Create, name, in.Mode, calls.Exclusive, nil)
	if !s.Ok() {
		return s
	}
	f.entry(p, out)
	f.call(nil, &in.InHeader, &calls.Request{Op: calls.Release, Ino: p.Attr.Ino})
	return s
}

func (f *files) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	p, s := f.create(cancel, &in.InHeader, calls.Mkdir, name, in.Mode, 0, nil)
	if s.Ok() {
		f.entry(p, out)
	}
	return s
}

func (f *files) Symlink(cancel <-chan struct{}, h *fuse.InHeader, to, name string, out *fuse.EntryOut) fuse.Status {
	p, s := f.create(cancel, h, calls.Symlink, name, 0o777, 0, []byte(to))
	if s.Ok() {
		f.entry(p, out)
	}
	return s
}

func (f *files) Readlink(cancel <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	p, s := f.call(cancel, h, &calls.Request{Op: calls.GetAttr, Ino: h.NodeId})
	return p.Data, s
}

// Link is refused as on file systems without hard links.
func (f *files) Link(<-chan struct{}, *fuse.LinkIn, string, *fuse.EntryOut) fuse.Status {
	return fuse.EPERM
}

func (f *files) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	_, s := f.call(cancel, h, &calls.Request{Op: calls.Remove, Ino: h.NodeId, Name: name})
	return s
}

func (f *files) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	_, s := f.call(cancel, h, &calls.Request{Op: calls.Remove, Ino: h.NodeId, Name: name, Flags: calls.Directory})
	return s
}

func (f *files) Rename(cancel <-chan struct{}, in *fuse.RenameIn, name, to string) fuse.Status {
	const noReplace = 1
	q := &calls.Request{Op: calls.Rename, Ino: in.NodeId, Name: name, ToDir: in.Newdir, ToName: to}
	switch in.Flags {
	case 0:
	case noReplace:
		q.Flags = calls.Exclusive
	default:
		return fuse.EINVAL
	}
	_, s := f.call(cancel, &in.InHeader, q)
	return s
}

func (f *files) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = f.openFlags()
	q := &calls.Request{Op: calls.OpenOp, Ino: in.NodeId}
	if in.Flags&syscall.O_TRUNC != 0 {
		q.Flags = calls.Truncate
	}
	if in.Flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		q.Flags |= calls.Writing
	}
	_, s := f.call(cancel, &in.InHeader, q)
	return s
}

func (f *files) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	q := &calls.Request{Op: calls.Release, Ino: in.NodeId, Owner: in.LockOwner}
	if in.ReleaseFlags&releaseFlock != 0 {
		q.Flags = calls.Whole
	}
	f.call(nil, &in.InHeader, q)
}

func (f *files) Read(cancel <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	p, s := f.call(cancel, &in.InHeader, &calls.Request{Op: calls.Read, Ino: in.NodeId, Off: int64(in.Offset), Size: int64(in.Size)}) // the I/O process refuses what is negative
	return fuse.ReadResultData(p.Data), s
}

func (f *files) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	// The kernel's buffer is its again once this returns; a request that was
	// interrupted may be sent later.
	q := &calls.Request{Op: calls.Write, Ino: in.NodeId, Off: int64(in.Offset), Data: append([]byte(nil), data...)} // the I/O process refuses what is negative
	if f.shared && in.Flags&syscall.O_APPEND != 0 {                                                                 // the kernel does not know where the end is
		q.Flags = calls.Append
	}
	_, s := f.call(cancel, &in.InHeader, q)
	if !s.Ok() {
		return 0, s
	}
	return uint32(len(data)), s // at most MaxWrite
}

func (f *files) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	_, s := f.call(cancel, &in.InHeader, &calls.Request{Op: calls.Flush, Ino: in.NodeId, Flags: calls.Owned, Owner: in.LockOwner})
	return s
}

func (f *files) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	_, s := f.call(cancel, &in.InHeader, &calls.Request{Op: calls.Fsync, Ino: in.NodeId})
	return s
}

func (f *files) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return f.Fsync(cancel, in)
}

// Fallocate makes a file larger. Room is reserved for nobody, and holes are not punched.
func (f *files) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	const keepSize = 1
	switch in.Mode {
	case keepSize:
		return fuse.OK
	case 0:
	default:
		return fuse.Status(syscall.EOPNOTSUPP)
	}
	p, s := f.call(cancel, &in.InHeader, &calls.Request{Op: calls.GetAttr, Ino: in.NodeId})
	if end := int64(in.Offset + in.Length); s.Ok() && p.Attr.Size < end { // the I/O process refuses what is negative
		_, s = f.call(cancel, &in.InHeader, &calls.Request{Op: calls.SetAttr, Ino: in.NodeId, Valid: calls.SetSize, Flags: calls.Grow, Size: end})
	}
	return s
}

func (f *files) OpenDir(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	out.Fh = f.last
	f.dirs[f.last] = &listing{}
	return fuse.OK
}

func (f *files) ReleaseDir(in *fuse.ReleaseIn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.dirs, in.Fh)
}

// listed gives what a directory has from an offset on; from its beginning it is read again.
func (f *files) listed(cancel <-chan struct{}, in *fuse.ReadIn) ([]calls.Entry, fuse.Status) {
	f.mu.Lock()
	d := f.dirs[in.Fh]
	var entries []calls.Entry
	if d != nil {
		entries = d.entries
	}
	f.mu.Unlock()
	if d == nil {
		return nil, fuse.EBADF
	}
	if in.Offset == 0 || entries == nil {
		p, s := f.call(cancel, &in.InHeader, &calls.Request{Op: calls.List, Ino: in.NodeId})
		if !s.Ok() {
			return nil, s
		}
		dots := calls.Attr{Ino: in.NodeId, Mode: syscall.S_IFDIR}
		entries = append([]calls.Entry{{Name: ".", Attr: dots}, {Name: "..", Attr: dots}}, p.Entries...)
		f.mu.Lock()
		d.entries = entries
		f.mu.Unlock()
	}
	return entries[min(in.Offset, uint64(len(entries))):], fuse.OK
}

func (f *files) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	entries, s := f.listed(cancel, in)
	for _, e := range entries {
		if !out.AddDirEntry(fuse.DirEntry{Name: e.Name, Mode: e.Attr.Mode, Ino: e.Attr.Ino}) {
			break
		}
	}
	return s
}

func (f *files) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	entries, s := f.listed(cancel, in)
	for i := range entries {
		e := &entries[i]
		to := out.AddDirLookupEntry(fuse.DirEntry{Name: e.Name, Mode: e.Attr.Mode, Ino: e.Attr.Ino})
		if to == nil {
			break
		}
		if e.Name != "." && e.Name != ".." { // these the kernel knows
			f.entry(&calls.Reply{Attr: e.Attr}, to)
		}
	}
	return s
}

func (f *files) StatFs(cancel <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	p, s := f.call(cancel, h, &calls.Request{Op: calls.Space, Ino: h.NodeId})
	if s.Ok() {
		const block = 4096
		out.Bsize, out.Frsize, out.NameLen = block, block, 255
		out.Blocks, out.Bfree, out.Bavail = uint64(p.Total)/block, uint64(p.Free)/block, uint64(p.Free)/block // positive
	}
	return s
}

// releaseFlock is the kernel's FUSE_RELEASE_FLOCK_UNLOCK.
const releaseFlock = 1 << 1

// lockRequest gives a request about a lock.
func lockRequest(in *fuse.LkIn, flags uint8) *calls.Request {
	end := func(at uint64) int64 { return int64(min(at, math.MaxInt64)) } // bounded
	q := &calls.Request{Op: calls.Lock, Ino: in.NodeId, Flags: flags, Owner: in.Owner, PID: in.Lk.Pid, Off: end(in.Lk.Start), Size: end(in.Lk.End)}
	if in.LkFlags&fuse.LK_FLOCK != 0 {
		q.Flags |= calls.Whole
	}
	switch in.Lk.Typ {
	case syscall.F_RDLCK:
		q.Mode = calls.LockRead
	case syscall.F_WRLCK:
		q.Mode = calls.LockWrite
	default:
		q.Mode = calls.LockNone
	}
	return q
}

func (f *files) GetLk(cancel <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	p, s := f.call(cancel, &in.InHeader, lockRequest(in, calls.Test))
	if !s.Ok() {
		return s
	}
	out.Lk = fuse.FileLock{Start: uint64(p.Lock.Start), End: uint64(p.Lock.End), Pid: p.Lock.PID} // positive
	switch p.Lock.Type {
	case calls.LockRead:
		out.Lk.Typ = syscall.F_RDLCK
	case calls.LockWrite:
		out.Lk.Typ = syscall.F_WRLCK
	default:
		out.Lk.Typ = syscall.F_UNLCK
	}
	return s
}

func (f *files) SetLk(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	_, s := f.call(cancel, &in.InHeader, lockRequest(in, 0))
	return s
}

func (f *files) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	_, s := f.call(cancel, &in.InHeader, lockRequest(in, calls.Wait))
	return s
}
