package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rpc"
	"golang.org/x/sys/unix"
)

// volume is the guest's data image, or that of another guest.
type volume struct {
	mu     sync.Mutex
	dir    *os.File // open where the disk is; nil: elsewhere, or there is none
	frozen bool
	state  api.VolumeState
	heard  time.Time // when the guest that has it gave a sign of life; zero: it is this one
}

// mount brings the volume up, if the guest has one. online is closed when the
// guest has its addresses.
func (v *volume) mount(c api.Config, online <-chan struct{}) error {
	if c.Volume == nil {
		return nil
	}
	if c.Volume.Server != "" {
		if err := mountExport(c.Volume.Server, hostOf(c)); err != nil {
			return err
		}
		go v.listen(c.Volume.Server)
		return nil
	}
	disk, err := awaitDisk(api.DataDisk)
	if err != nil {
		return err
	}
	if err := (mount{disk, api.VolumePath, "ext4", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOATIME, "errors=remount-ro"}).do(); err != nil {
		return fmt.Errorf("mount the data image: %w", err)
	}
	if err := own(api.VolumePath, c.UID, c.GID); err != nil {
		return fmt.Errorf("give the data image's files to the user: %w", err)
	}
	fsutil.TryRemove(filepath.Join(api.VolumePath, "lost+found")) // an empty volume is empty; e2fsck makes it when it needs it
	dir, err := os.Open(api.VolumePath)
	if err != nil {
		return err
	}
	v.mu.Lock()
	v.dir = dir
	v.mu.Unlock()
	go v.look()
	if c.Volume.Clients == "" {
		return nil
	}
	<-online
	return export(c)
}

// own gives all files of a directory that comes from elsewhere to the user here.
// The top is last, so that what was interrupted is done again.
func own(dir string, uid, gid int) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return err
	}
	if int(st.Uid) == uid && int(st.Gid) == gid {
		return nil
	}
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		return os.Lchown(p, uid, gid)
	})
	if err != nil {
		return err
	}
	return os.Lchown(dir, uid, gid)
}

// lookPause is between two looks at the volume: a job may make room again soon
// after it has filled it.
const lookPause = 200 * time.Millisecond

// look keeps the state up to date where the disk is.
func (v *volume) look() {
	for ; ; time.Sleep(lookPause) {
		var st unix.Statfs_t
		if unix.Statfs(api.VolumePath, &st) != nil {
			continue
		}
		free, files := int64(st.Bavail)*st.Bsize, int64(st.Ffree)
		v.mu.Lock()
		if v.state.Size == 0 {
			v.state.LeastFree, v.state.LeastFiles = free, files
		}
		v.state.Size = int64(st.Blocks) * st.Bsize
		v.state.LeastFree, v.state.LeastFiles = min(v.state.LeastFree, free), min(v.state.LeastFiles, files)
		v.mu.Unlock()
	}
}

// listen keeps the time at which the guest that has the volume gave a sign of
// life. That it refuses a connection is one, and comes from its kernel: NFS may
// have to keep silent for long, while the volume is frozen.
func (v *volume) listen(server string) {
	const pause, timeout = 5 * time.Second, 10 * time.Second
	address := net.JoinHostPort(server, strconv.Itoa(api.PeerPort))
	v.mu.Lock()
	v.heard = time.Now()
	v.mu.Unlock()
	for ; ; time.Sleep(pause) {
		c, err := net.DialTimeout("tcp", address, timeout)
		if err == nil {
			c.Close()
		} else if !errors.Is(err, unix.ECONNREFUSED) {
			continue
		}
		v.mu.Lock()
		v.heard = time.Now()
		v.mu.Unlock()
	}
}

// register adds the host's calls about the volume.
func (v *volume) register(s *rpc.Server) {
	rpc.Handle(s, api.CallVolume, func(context.Context, rpc.Caller, rpc.None) (api.VolumeState, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		state := v.state
		if !v.heard.IsZero() {
			state.Silent = time.Since(v.heard)
		}
		return state, nil
	})
	freeze := func(frozen bool, request uint) func(context.Context, rpc.Caller, rpc.None) (rpc.None, error) {
		return func(context.Context, rpc.Caller, rpc.None) (rpc.None, error) {
			v.mu.Lock()
			defer v.mu.Unlock()
			return rpc.None{}, v.set(frozen, request)
		}
	}
	rpc.Handle(s, api.CallFreeze, freeze(true, fiFreeze))
	rpc.Handle(s, api.CallThaw, freeze(false, fiThaw))
}

// Requests of ioctl_fs(2) that package unix lacks.
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

// set freezes or thaws the file system of the disk.
func (v *volume) set(frozen bool, request uint) error {
	if v.dir == nil {
		return &core.Error{Kind: core.NotFound, Op: "freeze volume", Err: errors.New("its disk is not this guest's"), Remedy: core.RemedyFault}
	}
	if v.frozen == frozen {
		return nil
	}
	if err := unix.IoctlSetInt(int(v.dir.Fd()), request, 0); err != nil {
		return &core.Error{Kind: core.Permanent, Op: "freeze volume", Err: err}
	}
	v.frozen = frozen
	return nil
}
