package far

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// Register adds the calls to those of an agent.
func Register(s *rpc.Server) { rpc.HandleStream(s, call, serve) }

func serve(ctx context.Context, _ rpc.Caller, q request, a rpc.Answer[rpc.None]) error {
	if err := a.Reply(rpc.None{}); err != nil {
		return err
	}
	var data []byte
	r := reply{}
	tree, err := open(q)
	if err == nil {
		defer tree.Close()
		data, err = carryOut(ctx, tree, q, a, &r)
	} else if !errors.Is(err, fs.ErrPermission) {
		err = errors.New(err.Error()) // it is about the directory, and about no name in it
	}
	r.Fault, r.Read = faultOf(err), int64(len(data))
	if err := rpc.Send(a, r, mostReply); err != nil {
		return err
	}
	_, err = a.Write(data)
	return err
}

// absolute gives the path of a directory, which begins at the user's home.
func absolute(dir string) (string, error) {
	if filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, dir), err
}

func open(q request) (*remote.Tree, error) {
	dir, err := absolute(q.Dir)
	if err != nil {
		return nil, err
	}
	return remote.OpenTree(dir, q.Volume, nil)
}

// carryOut carries a request out. What changes something waits for the agent of a connection
// that was lost.
func carryOut(ctx context.Context, t *remote.Tree, q request, from io.Reader, r *reply) (data []byte, err error) {
	guarded := q.Claimed && q.Op != opSpace && q.Op != opRecord && q.Op != opSetRecord && q.Op != opReplace && q.Op != opRemoveRecord
	if guarded {
		if err := t.Claimed(); err != nil {
			return nil, err
		}
	}
	switch q.Op {
	case opStat:
		r.Entry, err = t.Stat(q.Name)
		return nil, err
	case opList:
		most := math.MaxInt
		if q.Size > 0 {
			most = int(q.Size)
		}
		r.List, err = t.Glance(q.Name, most)
		return nil, err
	case opRead:
		return read(ctx, t, q)
	case opSpace:
		r.Total, r.Free, err = t.Space()
		return nil, err
	case opRecord:
		r.Raw, err = t.Record()
		return nil, err
	}
	if q.Op == opReplace {
		return nil, t.ReplaceRecord(q.Old, q.Raw) // locks the directory itself
	}
	// Where the connection is lost meanwhile, the agent of the next one may have done more.
	err = t.Locked(ctx, func() error {
		if guarded { // another volume may have taken the directory over while this one waited
			if err := t.Claimed(); err != nil {
				return err
			}
		}
		return change(ctx, t, q, from, r)
	})
	return nil, err
}

// change carries out a request that changes something.
func change(ctx context.Context, t *remote.Tree, q request, from io.Reader, r *reply) (err error) {
	switch q.Op {
	case opEnsure:
		err = t.Ensure(q.Name)
	case opWrite:
		c := remote.Content{Seq: q.Seq, Size: q.Size, Mode: q.Mode, Mtime: q.Mtime, Data: func(put func(int64, []byte) error) error { return pieces(from, q.Size, put) }}
		r.Partial, r.Version, err = t.Write(ctx, q.Name, q.Ino, c)
	case opDiscard:
		err = t.Discard(q.Name, q.Ino)
	case opPublish:
		r.Version, err = t.Publish(q.To, q.Name, q.Ours, q.Expect)
	case opRemove:
		err = t.Remove(q.Name, q.Ino, q.Expect)
	case opMove:
		r.Version, err = t.Move(q.Name, q.To, q.Seq, q.Ours, q.Expect)
	case opMoveDir:
		_, err = t.MoveDir(q.Name, q.To, q.Seq, q.Ours, q.Over)
	case opMkdir:
		err = t.Mkdir(q.Name, q.Mode)
	case opRmdir:
		err = t.Rmdir(q.Name)
	case opSymlink:
		err = t.Symlink(q.To, q.Name)
	case opSetAttr:
		r.Version, err = t.SetAttr(q.Name, q.Seq, q.Ours, q.Mode, q.Mtime)
	case opKeep:
		err = t.Keep(q.Name, q.To, q.Ours)
	case opSetRecord:
		err = t.SetRecord(q.Raw)
	case opRemoveRecord:
		err = t.RemoveRecord()
	default:
		err = errors.New("no such call")
	}
	return err
}

// pieces reads the content of a file of a size.
func pieces(from io.Reader, size int64, put func(int64, []byte) error) error {
	p := make([]byte, piece)
	for {
		var head [12]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return err
		}
		off, n := int64(binary.BigEndian.Uint64(head[:8])), int64(binary.BigEndian.Uint32(head[8:])) // checked below
		switch {
		case n == 0:
			return nil
		case n > piece || off < 0 || off > size-n:
			return errors.New("a piece is outside of its file")
		}
		if _, err := io.ReadFull(from, p[:n]); err != nil {
			return err
		}
		if err := put(off, p[:n]); err != nil {
			return err
		}
	}
}

func read(ctx context.Context, t *remote.Tree, q request) ([]byte, error) {
	f, err := t.Open(q.Name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fs.ErrClosed
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Version() != q.Ours {
		return nil, fs.ErrClosed
	}
	p := make([]byte, q.Size)
	n, err := f.Read(ctx, p, q.Off)
	return p[:n], err
}
