package main

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/wire"
)

// memoryLinks is how many other hosts the switch has whose memory is measured.
const memoryLinks = 63

// aloneArg has this program be one switch, whose memory another process reads.
const aloneArg = "alone"

// alone is a switch with a guest that takes all, and gives as much to all hosts.
func alone() error {
	debug.SetGCPercent(40) // as a node does
	f := fabric.New(fabric.Switch, fabric.Sockets, fabric.Place{Host: 0, Hosts: memoryLinks + 1, Guests: 1}, slog.New(slog.DiscardHandler))
	file, err := f.Attach(0)
	if err != nil {
		return err
	}
	guest, err := net.FileConn(file)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	own, keys, err := invite(l.Addr().String())
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.Encode(keys) //nolint:errcheck // a pipe
	for host := 1; host <= memoryLinks; host++ {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		secure := own.SecureServer(c, "frames")
		if err := secure.Handshake(); err != nil {
			return err
		}
		if _, err := f.Link(host, 0, secure); err != nil {
			return err
		}
	}
	out.Encode("linked") //nolint:errcheck // a pipe
	go io.Copy(io.Discard, guest)
	frame := makeFrame(64000, 0, 0, dataTag, 0, 0)
	for to := 1; ; to = to%memoryLinks + 1 {
		copy(frame, address(to))
		if _, err := guest.Write(frame); err != nil {
			return err
		}
	}
}

// invitation is what one who links to the switch has to know.
type invitation struct {
	Addr          string
	CA, Cert, Key []byte
}

// invite makes the keys of the switch and those of all others.
func invite(addr string) (*wire.Identity, invitation, error) {
	authority, err := wire.NewAuthority()
	if err != nil {
		return nil, invitation{}, err
	}
	first, err := keyOf(authority, 0)
	if err != nil {
		return nil, invitation{}, err
	}
	own, err := wire.NewIdentity(first.CA, first.Cert, first.Key)
	if err != nil {
		return nil, invitation{}, err
	}
	others, err := keyOf(authority, 1)
	others.Addr = addr
	return own, others, err
}

// keyOf makes the key of a host's switch.
func keyOf(authority *wire.Authority, host int) (invitation, error) {
	cert, key, err := authority.Issue(fmt.Sprint("node-", host))
	return invitation{CA: authority.Certificate(), Cert: cert, Key: key}, err
}

// memory gives the resident memory of a switch with many links, in MB, while
// large frames come from all other hosts and go to all of them.
func memory(span time.Duration) Result {
	r := Result{What: "memory of a switch", Size: 64000, Hosts: memoryLinks + 1, Shape: "memory"}
	megabytes, err := memoryOf(span)
	if err != nil {
		r.Note = err.Error()
	}
	r.MB = megabytes
	return r
}

func memoryOf(span time.Duration) (float64, error) {
	c := exec.Command("/proc/self/exe", aloneArg)
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return 0, err
	}
	defer func() { c.Process.Kill(); procid.Reap(c) }() // it is ours
	in := json.NewDecoder(out)
	var to invitation
	if err := in.Decode(&to); err != nil {
		return 0, err
	}
	id, err := wire.NewIdentity(to.CA, to.Cert, to.Key)
	if err != nil {
		return 0, err
	}
	var conns []net.Conn
	for range memoryLinks {
		conn, err := tls.Dial("tcp", to.Addr, id.Client("node-0"))
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	var linked string
	if err := in.Decode(&linked); err != nil {
		return 0, err
	}
	var wg sync.WaitGroup
	end := time.Now().Add(2 * span)
	for i, conn := range conns {
		conn.SetDeadline(end)
		wg.Go(func() { io.Copy(io.Discard, conn) })
		wg.Go(func() {
			frame := makeFrame(64000, i+1, 0, dataTag, 0, 0)
			frame = append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
			for err := error(nil); err == nil; _, err = conn.Write(frame) {
			}
		})
	}
	most := 0.0
	for time.Now().Before(end) {
		time.Sleep(50 * time.Millisecond)
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(raw), "VmRSS:")
		var kib float64
		fmt.Sscan(rest, &kib) //nolint:errcheck // the kernel writes a number
		most = max(most, kib/1024)
	}
	wg.Wait()
	return most, nil
}
