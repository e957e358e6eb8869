package relay

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/socket"
	"golang.org/x/sys/unix"
)

// answerTime is how long the broker of a host may take to answer.
const answerTime = 10 * time.Second

// poolAt is the descriptor of a greeting that is of memory for reading and writing: the page of the process.
const poolAt = 3

// Pool returns the memory that the programs of a socket share, and its size, as the broker has it.
func Pool(path, build string) (*os.File, int64, error) {
	if len(build) != message.Build {
		return nil, 0, fmt.Errorf("the library is of build %q", build)
	}
	conn, err := socket.Dial(path)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return nil, 0, err
	}
	packet, err := message.Encode(message.OpHello, message.Hello{Protocol: message.Protocol, PID: uint32(os.Getpid()), Build: [message.Build]byte([]byte(build))})
	if err != nil {
		return nil, 0, err
	}
	if _, err := conn.Write(packet); err != nil {
		return nil, 0, err
	}
	reply, control := make([]byte, message.Packet), make([]byte, unix.CmsgSpace(4*message.Descriptors))
	n, m, _, _, err := conn.ReadMsgUnix(reply, control)
	if err != nil {
		return nil, 0, err
	}
	descriptors, err := rights(control[:m])
	if errno := message.Refused(reply[:n]); errno != 0 {
		closeAll(descriptors)
		return nil, 0, fmt.Errorf("the broker has refused: %w", errno)
	}
	if err != nil || len(descriptors) <= poolAt {
		closeAll(descriptors)
		return nil, 0, errors.Join(fmt.Errorf("the broker has answered %d bytes with %d descriptors", n, len(descriptors)), err)
	}
	file := os.NewFile(uintptr(descriptors[poolAt]), "bee-rdma-pool")
	closeAll(append(descriptors[:poolAt:poolAt], descriptors[poolAt+1:]...))
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}
