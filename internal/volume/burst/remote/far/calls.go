// Package far is a directory of a host behind ssh as a remote of a burst buffer. The agent
// there, `bee remote`, carries out each call on the directory.
//
// The host is not believed: names, counts and sizes of its answers are checked. A connection
// that is lost is made again by the next call.
package far

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

type op string

const (
	opStat         op = "stat"
	opList         op = "list"
	opRead         op = "read"
	opSpace        op = "space"
	opEnsure       op = "ensure"
	opWrite        op = "write"
	opDiscard      op = "discard"
	opPublish      op = "publish"
	opRemove       op = "remove"
	opMove         op = "move"
	opMoveDir      op = "movedir"
	opMkdir        op = "mkdir"
	opRmdir        op = "rmdir"
	opSymlink      op = "symlink"
	opSetAttr      op = "setattr"
	opRecord       op = "record"
	opSetRecord    op = "setrecord"
	opReplace      op = "replacerecord"
	opKeep         op = "keep"
	opRemoveRecord op = "removerecord"
)

// request is a call of remote.Remote.
type request struct {
	Op     op     `json:"op"`
	Dir    string `json:"dir"`
	Volume string `json:"volume"`
	// Claimed is whether the directory had the record of the volume, and so must have it now.
	Claimed bool `json:"claimed,omitempty"`

	Name   string         `json:"name,omitempty"`
	To     string         `json:"to,omitempty"` // new name, target of a link, or word of what was sent
	Ino    uint64         `json:"ino,omitempty"`
	Seq    uint64         `json:"seq,omitempty"`
	Ours   remote.Version `json:"ours,omitzero"`
	Expect remote.Version `json:"expect,omitzero"`
	Mode   uint32         `json:"mode,omitempty"`
	Mtime  int64          `json:"mtime,omitempty"`
	Off    int64          `json:"off,omitempty"`
	Size   int64          `json:"size,omitempty"`
	Over   bool           `json:"over,omitempty"`
	Raw    []byte         `json:"raw,omitempty"`
	Old    []byte         `json:"old,omitempty"` // record that is replaced
}

// Check implements the check of package rpc.
func (q request) Check() error {
	if q.Size < 0 || q.Off < 0 || q.Op == opRead && q.Size > mostRead {
		return sshlink.Invalid("size", q.Size)
	}
	return sshlink.CheckTexts("name", q.Dir, q.Volume, q.Name, q.To)
}

// reply answers a request. What was read follows it.
type reply struct {
	Fault   *fault         `json:"fault,omitempty"`
	Entry   remote.Entry   `json:"entry,omitzero"`
	List    []remote.Entry `json:"list,omitempty"`
	Version remote.Version `json:"version,omitzero"`
	Partial string         `json:"partial,omitempty"`
	Raw     []byte         `json:"raw,omitempty"`
	Read    int64          `json:"read,omitempty"`
	Total   int64          `json:"total,omitempty"`
	Free    int64          `json:"free,omitempty"`
}

// Check implements the check of package rpc.
func (r reply) Check() error {
	if r.Read < 0 || r.Read > mostRead {
		return sshlink.Invalid("number of bytes", r.Read)
	}
	return sshlink.CheckTexts("name", r.Partial)
}

// fault is an error of a call.
type fault struct {
	Foreign bool          `json:"foreign,omitempty"`
	Gone    bool          `json:"gone,omitempty"`  // the version that is read
	Large   bool          `json:"large,omitempty"` // the directory that is listed
	Errno   syscall.Errno `json:"errno,omitempty"`
	Text    string        `json:"text"`
}

func faultOf(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{
		Foreign: errors.Is(err, remote.ErrForeign), Gone: errors.Is(err, fs.ErrClosed), Large: errors.Is(err, remote.ErrLarge),
		Text: core.Printable(err.Error(), 500),
	}
	if !errors.As(err, &f.Errno) && (errors.Is(err, fsutil.ErrNotPlain) || errors.Is(err, fsutil.ErrOutside)) {
		f.Errno = syscall.ELOOP
	}
	return f
}

// err gives the fault as an error about a name.
func (f *fault) err(what op, at string) error {
	e := &fs.PathError{Op: string(what), Path: at, Err: errors.New(core.Printable(f.Text, 500))}
	switch {
	case f.Foreign:
		e.Err = remote.ErrForeign
	case f.Gone:
		e.Err = fs.ErrClosed
	case f.Large:
		e.Err = remote.ErrLarge
	case f.Errno != 0:
		e.Err = f.Errno
	}
	return e
}

const (
	mostRead  = 4 << 20   // bytes of a file in an answer
	mostReply = 256 << 20 // of a list
	piece     = 256 << 10 // bytes of a file that are sent at a time
)

// call carries all requests. Content of a file follows that of a write: offset, length and
// bytes of each piece, and one of no length in the end.
var call = rpc.Method[request, rpc.None]{Name: "burst", By: rpc.Controller, Request: rpc.LargeSize, Within: rpc.Unlimited}
