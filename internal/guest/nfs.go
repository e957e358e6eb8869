package guest

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/guest/api"
	"golang.org/x/sys/unix"
)

// exportThreads is how many requests the server works on at once.
const exportThreads = "16"

// export serves the volume to the other guests: NFS 4.2 over TCP, and nothing
// of the older versions with their port mapper. A reply to a sync means that
// the data is on the disk.
func export(c api.Config) error {
	if err := command("modprobe", "-a", "nfsd"); err != nil {
		return err
	}
	if err := (mount{"nfsd", "/proc/fs/nfsd", "nfsd", 0, ""}).do(); err != nil {
		return err
	}
	line := fmt.Sprintf("%s %s(rw,sync,no_subtree_check,no_root_squash,no_wdelay,fsid=0,sec=sys)\n", api.VolumePath, c.Volume.Clients)
	if err := os.WriteFile("/etc/exports", []byte(line), 0o644); err != nil {
		return err
	}
	if err := command("exportfs", "-ra"); err != nil {
		return err
	}
	if err := service(c, "rpc.mountd", "--no-nfs-version", "2", "--no-nfs-version", "3", "--foreground"); err != nil {
		return err
	}
	// By itself the kernel takes less of guests with little memory.
	if err := os.WriteFile("/proc/fs/nfsd/max_block_size", []byte("1048576"), 0o600); err != nil {
		return err
	}
	if err := command("rpc.nfsd", "--no-nfs-version", "3", "--nfs-version", "4.2", "--tcp", "--no-udp", "--host", hostOf(c), exportThreads); err != nil {
		return err
	}
	// Nobody can have locks to claim back from a server that is new: without
	// this, the first ones wait for a minute and a half.
	return os.WriteFile("/proc/fs/nfsd/v4_end_grace", []byte("Y"), 0o600)
}

// hostOf is the guest's own address in the fabric.
func hostOf(c api.Config) string {
	if c.Fabric == nil {
		return ""
	}
	address, _, _ := strings.Cut(c.Fabric.Address, "/")
	return address
}

// exportTimeout is for the server's guest to boot. Its own limit counts only the time in which its
// host lets it run, so that it may take longer by this clock. Where it fails, the head ends this one.
const exportTimeout = 15 * time.Minute

// mountExport mounts another guest's volume, once that is up. What one guest
// has written and closed or synced, all others see from then on: attributes are
// asked for again each time. A server that goes away is waited for: nothing
// that was written is given up.
func mountExport(server, own string) error {
	if err := command("modprobe", "-a", "nfsv4"); err != nil {
		return err
	}
	options := fmt.Sprintf("addr=%s,clientaddr=%s,vers=4.2,proto=tcp,hard,rsize=1048576,wsize=1048576,actimeo=0,lookupcache=none,sec=sys", server, own)
	m := mount{server + ":/", api.VolumePath, "nfs4", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOATIME, options}
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) { // nothing reports when it serves
		c, err := net.DialTimeout("tcp", net.JoinHostPort(server, "2049"), time.Second)
		if err == nil {
			c.Close()
			if err = m.do(); err == nil {
				return nil
			}
		}
		if time.Since(begun) > exportTimeout {
			return fmt.Errorf("mount the volume that node 0's guest exports: %w", err)
		}
	}
}
