package client

import (
	"fmt"
	"io"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/rpc"
)

func receiveExec(r io.Reader, stdout, stderr io.Writer, credit chan<- struct{}) (core.Exit, error) {
	for {
		kind, data, err := nodecall.ReadFrame(r)
		if err != nil {
			return core.Exit{}, lost("wait for the command", err)
		}
		switch kind {
		case nodecall.FrameStdout:
			_, err = stdout.Write(data)
		case nodecall.FrameStderr:
			_, err = stderr.Write(data)
		case nodecall.FrameCredit:
			select {
			case credit <- struct{}{}:
			default: // more than was taken: not ours to count
			}
		case nodecall.FrameExit:
			x, err := rpc.Decode[nodecall.ExitFrame](data)
			if err != nil {
				return core.Exit{}, err
			}
			return x.Exit, x.Failed.Err()
		}
		if err != nil {
			return core.Exit{}, fmt.Errorf("pass the command's output on: %w", err)
		}
	}
}
