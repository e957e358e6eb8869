package main

import (
	"bufio"
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
	fmt.Println(l.Addr())
	for host := 1; host <= memoryLinks; host++ {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		if _, err := f.Link(host, c); err != nil {
			return err
		}
	}
	fmt.Println("linked")
	go io.Copy(io.Discard, guest) //nolint:errcheck // until we are killed
	for to := 1; ; to = to%memoryLinks + 1 {
		if _, err := guest.Write(makeFrame(64000, 0, to, dataTag, 0, 0)); err != nil {
			return err
		}
	}
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
	defer func() { c.Process.Kill(); c.Wait() }() //nolint:errcheck // it is ours
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return 0, io.ErrUnexpectedEOF
	}
	var conns []net.Conn
	for range memoryLinks {
		conn, err := net.Dial("tcp", lines.Text())
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	lines.Scan()
	var wg sync.WaitGroup
	end := time.Now().Add(2 * span)
	for i, conn := range conns {
		conn.SetDeadline(end)                       //nolint:errcheck // an open socket takes it
		wg.Go(func() { io.Copy(io.Discard, conn) }) //nolint:errcheck // until the deadline
		wg.Go(func() {
			for f := (&framed{Conn: conn}); f.Send(makeFrame(64000, i+1, 0, dataTag, 0, 0)) == nil; {
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
