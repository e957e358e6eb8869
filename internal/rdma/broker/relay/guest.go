package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/socket"
	"golang.org/x/sys/unix"
)

// Memory is the pool as a guest has it: for all, and for reading alone. It begins where the broker has the offset Base.
type Memory struct {
	All, Read *os.File
	Base      uint64
}

// Guest carries a program, and a stream that leads to its host, until either ends. It closes both.
func Guest(ctx context.Context, program *net.UnixConn, stream net.Conn, m Memory) error {
	g := guest{half: newHalf(stream), program: program, memory: m}
	stop := context.AfterFunc(ctx, func() { core.BestEffort(errors.Join(program.Close(), hangUp(stream))) })
	defer stop()
	replies := make(chan error, 1)
	go func() {
		err := g.replies()
		program.Close()
		replies <- err
	}()
	err := g.requests()
	core.BestEffort(hangUp(stream))
	err = errors.Join(err, <-replies)
	g.end()
	return err
}

type guest struct {
	*half
	program *net.UnixConn
	memory  Memory
}

// requests passes on what the program asks; nil: it has ended.
func (g *guest) requests() error {
	buf := make([]byte, message.Packet+1)
	for {
		packet, err := socket.Receive(g.program, buf)
		if err != nil || packet == nil {
			return err
		}
		if err := g.write(frame{kind: kindRequest, body: packet}); err != nil {
			return nil // the host has ended
		}
	}
}

// replies passes on what the host sends; nil: it has ended.
func (g *guest) replies() error {
	for {
		f, err := readFrame(g.stream)
		if err != nil {
			return nil // the host has ended
		}
		if f.kind == kindReply {
			err = g.reply(f.body)
		} else {
			err = g.carry(f)
		}
		if err != nil {
			return err
		}
	}
}

// reply sends a packet to the program, with descriptors in place of those of the broker.
func (g *guest) reply(body []byte) error {
	passes, packet, err := decodeReply(body)
	if err != nil {
		return err
	}
	descriptors := make([]int, len(passes))
	for i, p := range passes {
		if p.kind == ofMemory || p.kind == ofMemoryToRead {
			if !message.Shift(packet, i, g.memory.Base) {
				return fmt.Errorf("descriptor %d of a reply is of memory that is not of the pool", i)
			}
			descriptors[i] = int(g.memory.All.Fd())
			if p.kind == ofMemoryToRead {
				descriptors[i] = int(g.memory.Read.Fd())
			}
			continue
		}
		if descriptors[i], err = g.socket(p); err != nil {
			return err
		}
	}
	return socket.Send(g.program, packet, descriptors)
}

// socket returns the program's end of a socket.
func (g *guest) socket(p pass) (int, error) {
	if e := g.find(p.id); e != nil {
		return int(e.other.Fd()), nil
	}
	kinds := map[uint8]int{ofStream: unix.SOCK_STREAM, ofPackets: unix.SOCK_SEQPACKET}
	k, known := kinds[p.kind]
	if !known {
		return 0, fmt.Errorf("a reply has a descriptor of kind %d", p.kind)
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, k|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("make a socket for a program: %w", err)
	}
	f, err := pollable(ends[0])
	if err != nil {
		return 0, errors.Join(err, unix.Close(ends[1]))
	}
	if err := g.add(p.id, &socketEnd{file: f, other: os.NewFile(uintptr(ends[1]), "bee-rdma-program")}); err != nil {
		return 0, err
	}
	g.start(p.id)
	return ends[1], nil
}
