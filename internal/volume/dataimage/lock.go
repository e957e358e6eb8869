package dataimage

import (
	"errors"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Lock keeps an image for one user at a time: anyone who lets a machine write to
// it, and who sets it right. It lasts until release is called or the process
// ends.
func Lock(file string) (release func(), err error) {
	f, err := os.OpenFile(file, os.O_RDWR|unix.O_NONBLOCK, 0) // a FIFO is refused by Open
	if err != nil {
		return nil, fileError("use data image", file, err)
	}
	err = fsutil.TryFlock(int(f.Fd()), unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = &core.Error{Kind: core.Busy, Op: "use data image", Object: file, Err: errors.New("a virtual machine, or another command, uses it"), Remedy: "Wait until that has ended."}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
