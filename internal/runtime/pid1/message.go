// Package pid1 is the first process of every container, and the
// client by which the node has it start others. It runs inside the container,
// so that starting a process there costs one fork, needs no setns, and is the
// same whatever runtime made the container. It reaps orphans, forwards
// signals, and ends everything when the node that holds it dies.
//
// It knows nothing of images, and of namespaces only that of users, where
// nobody else makes one.
package pid1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"golang.org/x/sys/unix"
)

// SocketName is the socket, in the run directory (/.bee/run inside), at which a node
// waits for the init of a container that it starts. It goes once init has come, so that
// nobody who runs in the container finds it.
const SocketName = "init.sock"

// request is the first message of a connection. One connection is one process. Those
// of the connection that holds the container are empty, and bring such connections.
type request struct {
	Args []string `json:"args,omitempty"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"`
	// Terminal asks for a terminal in place of Files. Its end comes with the answer.
	Terminal *driver.TerminalSize `json:"terminal,omitempty"`
	// Mounts, if there are any, are checked in place of a start.
	Mounts []mounted `json:"mounts,omitempty"`
	// Sample asks what the container's processes use, in place of a start.
	Sample bool `json:"sample,omitempty"`
	// Files reports which of stdin, stdout and stderr come along as descriptors.
	Files [3]bool `json:"files"`
}

// order is what the client sends later: a signal for the process's group.
type order struct {
	Signal int `json:"signal"`
}

// report is what init answers: first Started or Error, at last Exit; on the connection that
// holds the container, Exit is what all processes inside have used.
type report struct {
	Started bool       `json:"started,omitempty"`
	PID     int        `json:"pid,omitempty"`
	Error   string     `json:"error,omitempty"`
	Code    int        `json:"code,omitempty"` // 126 or 127 with Error, as shells have it
	Exit    *core.Exit `json:"exit,omitempty"`
	// Sample is the answer to Sample of a request.
	Sample *core.Sample `json:"sample,omitempty"`
}

// connOf is the connection whose descriptor that is.
func connOf(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, is := c.(*net.UnixConn)
	if !is {
		c.Close()
		return nil, errors.New("not a unix socket")
	}
	return u, nil
}

// send writes one message, a line of JSON, with descriptors.
func send(c *net.UnixConn, v any, fds ...int) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	n, _, err := c.WriteMsgUnix(raw, rights, nil)
	if err == nil && n < len(raw) {
		_, err = c.Write(raw[n:])
	}
	return err
}

// reader reads messages and the descriptors that come along.
type reader struct {
	c   *net.UnixConn
	buf []byte
	fds []int
}

// maxMessage bounds a message: argument vectors and environments are below
// the kernel's own limit of 6 MiB.
const maxMessage = 8 << 20

func (r *reader) receive(into any) error {
	for {
		if i := bytes.IndexByte(r.buf, '\n'); i >= 0 {
			line := r.buf[:i]
			r.buf = append([]byte(nil), r.buf[i+1:]...)
			return json.Unmarshal(line, into)
		}
		if len(r.buf) > maxMessage {
			return errors.New("message is too long")
		}
		piece := make([]byte, max(8<<10, len(r.buf))) // most messages are smaller
		oob := make([]byte, unix.CmsgSpace(3*4))
		n, oobn, _, _, err := r.c.ReadMsgUnix(piece, oob)
		if err != nil {
			return err
		}
		if n == 0 {
			return io.EOF
		}
		r.buf = append(r.buf, piece[:n]...)
		if err := r.take(oob[:oobn]); err != nil {
			return err
		}
	}
}

// closeFiles closes descriptors that nobody has taken.
func (r *reader) closeFiles() {
	for _, fd := range r.fds {
		unix.Close(fd)
	}
	r.fds = nil
}

func (r *reader) take(oob []byte) error {
	if len(oob) == 0 {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("read descriptors: %w", err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fmt.Errorf("read descriptors: %w", err)
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
		}
		r.fds = append(r.fds, fds...)
	}
	return nil
}
