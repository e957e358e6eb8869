package unpack

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// full is a file system which reports only at the close that a new file has no room. Its
// file "short" ends before its size.
type full struct{ fs.Inode }

func (f *full) OnAdd(ctx context.Context) {
	for name, file := range map[string]fs.InodeEmbedder{"whole": &fs.MemRegularFile{Data: []byte("text")}, "short": &shortFile{}} {
		f.AddChild(name, f.NewPersistentInode(ctx, file, fs.StableAttr{}), false)
	}
}

func (f *full) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	out.Bsize, out.Bavail = 4096, 1<<30
	return fs.OK
}

func (f *full) Create(ctx context.Context, _ string, _, _ uint32, _ *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	return f.NewPersistentInode(ctx, &fullFile{}, fs.StableAttr{}), nil, 0, fs.OK
}

type fullFile struct{ fs.MemRegularFile }

func (*fullFile) Flush(context.Context, fs.FileHandle) syscall.Errno { return syscall.EDQUOT }

type shortFile struct{ fs.MemRegularFile }

func (*shortFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, fs.OK
}

func (*shortFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Size = 10
	return fs.OK
}

// TestACopyThatIsNotWholeIsAnError, also where only the close of the copy reports it.
func TestACopyThatIsNotWholeIsAnError(t *testing.T) {
	testkit.RequireFUSE(t)
	dir := t.TempDir()
	server, err := fs.Mount(dir, &full{}, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: os.Geteuid() == 0, Logger: log.New(io.Discard, "", 0),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	u, err := New(dir, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for source, want := range map[string]error{"whole": syscall.EDQUOT, "short": io.ErrUnexpectedEOF} {
		if err := u.linkCopy(source, u.dirs.root(), source, u.dirs.root(), "of "+source, "of "+source); !errors.Is(err, want) {
			t.Errorf("a copy of %q: %v, want %v", source, err, want)
		}
	}
}
