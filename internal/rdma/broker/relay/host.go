package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"golang.org/x/sys/unix"
)

// Host carries a program of a guest, to which a stream leads, and its connection with the broker, until either ends. It
// closes both. Replies may have memory of a pool alone.
func Host(ctx context.Context, stream net.Conn, broker *net.UnixConn, pool *os.File) error {
	h := host{half: newHalf(stream), broker: broker}
	stop := context.AfterFunc(ctx, func() { core.BestEffort(errors.Join(broker.Close(), hangUp(stream))) })
	defer stop()
	var err error
	if h.pool, err = inodeOf(int(pool.Fd())); err != nil {
		return errors.Join(err, broker.Close(), hangUp(stream))
	}
	replies := make(chan error, 1)
	go func() {
		err := h.replies()
		core.BestEffort(hangUp(stream))
		replies <- err
	}()
	err = h.requests()
	core.BestEffort(errors.Join(broker.Close(), hangUp(stream))) // the guest may read no more
	err = errors.Join(err, <-replies)
	h.end()
	return err
}

type host struct {
	*half
	broker *net.UnixConn
	pool   inode
	last   uint32 // number of a socket
}

func inodeOf(fd int) (inode, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return inode{}, fmt.Errorf("look at a descriptor: %w", err)
	}
	return inode{st.Dev, st.Ino}, nil
}

// requests passes on what the guest sends; nil: it has ended.
func (h *host) requests() error {
	for {
		f, err := readFrame(h.stream)
		switch {
		case err != nil:
			return nil // the end of a program, whatever it is called
		case f.kind != kindRequest:
			if err := h.carry(f); err != nil {
				return err
			}
			continue
		case len(f.body) == 0 || len(f.body) > message.Packet:
			return fmt.Errorf("a request of %d bytes", len(f.body))
		}
		if _, err := h.broker.Write(f.body); err != nil {
			return nil // the broker has ended
		}
	}
}

// replies passes on what the broker sends; nil: it has ended.
func (h *host) replies() error {
	packet, control := make([]byte, message.Packet+1), make([]byte, unix.CmsgSpace(4*message.Descriptors))
	for {
		n, m, flags, _, err := h.broker.ReadMsgUnix(packet, control)
		if err != nil || n == 0 {
			return nil // the broker has ended
		}
		descriptors, err := rights(control[:m])
		reply := packet[:n]
		switch {
		case err != nil:
		case flags&unix.MSG_TRUNC != 0:
			err = errors.New("a reply has no room")
		case flags&unix.MSG_CTRUNC != 0: // this process has no more descriptors
			closeAll(descriptors)
			descriptors = nil
			reply, err = message.Instead(reply, unix.EMFILE)
		}
		if err != nil {
			closeAll(descriptors)
			return err
		}
		if err := h.reply(reply, descriptors); err != nil {
			return err
		}
	}
}

func rights(control []byte) (descriptors []int, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	for _, one := range messages {
		fds, ferr := unix.ParseUnixRights(&one)
		descriptors, err = append(descriptors, fds...), errors.Join(err, ferr)
	}
	return descriptors, err
}

func closeAll(descriptors []int) {
	for _, fd := range descriptors {
		unix.Close(fd)
	}
}

// reply sends a packet, and keeps the sockets among its descriptors.
func (h *host) reply(packet []byte, descriptors []int) error {
	var passes []pass
	before := h.last
	for i, fd := range descriptors {
		p, err := h.sort(fd)
		if err != nil {
			closeAll(descriptors[i+1:])
			return err
		}
		passes = append(passes, p)
	}
	err := h.write(frame{kind: kindReply, body: encodeReply(passes, packet)})
	for id := before + 1; id <= h.last; id++ {
		h.start(id)
	}
	return err
}

// sort returns what a descriptor is for the guest, and keeps it if it is a new socket. It is closed otherwise.
func (h *host) sort(fd int) (pass, error) {
	id, err := inodeOf(fd)
	if err == nil && id == h.pool {
		p := pass{kind: ofMemory}
		var flags int
		if flags, err = unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); flags&unix.O_ACCMODE == unix.O_RDONLY {
			p.kind = ofMemoryToRead
		}
		return p, errors.Join(err, unix.Close(fd))
	}
	kinds := map[int]uint8{unix.SOCK_STREAM: ofStream, unix.SOCK_SEQPACKET: ofPackets}
	var of int
	if err == nil {
		of, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	}
	k, known := kinds[of]
	if err != nil || !known {
		return pass{}, errors.Join(fmt.Errorf("a reply has what is neither of the pool nor a socket (%w)", err), unix.Close(fd))
	}
	if before, is := h.numberOf(id); is {
		return pass{k, before}, unix.Close(fd)
	}
	f, err := pollable(fd)
	if err != nil {
		return pass{}, err
	}
	h.last++
	return pass{k, h.last}, h.add(h.last, &socketEnd{file: f, inode: id})
}
