// Package inside is what runs in a job's container for a command of the run's user: the far
// ends of `bee cp`, `bee forward` and `bee stats`; and what a job of `bee bench` runs to drop
// its files from memory, to compare clocks, and to print what computes. It has the rights of the job, and no
// others: it knows no node and no site. Requests are arguments, data goes by the standard
// streams.
package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/tarcopy"
)

// Command is the first argument of bee for this package.
const Command = "inside"

// Program is bee in a container.
const Program = "/.bee/bee"

// CopyOut returns the command line that writes a path as a tar stream.
func CopyOut(path string) []string { return []string{Program, Command, "copy-out", path} }

// CopyIn returns the command line that receives a tar stream.
func CopyIn(t tarcopy.Target) []string { return []string{Program, Command, "copy-in", t.Path, t.Name} }

// Dial returns the command line that connects to a port of the loopback.
func Dial(port int) []string { return []string{Program, Command, "dial", strconv.Itoa(port)} }

// Stats returns the command line that writes samples, each as a line of JSON; count 0: until
// it is ended.
func Stats(count int) []string { return []string{Program, Command, "stats", strconv.Itoa(count)} }

// ColdCommand is the second argument of bee, before files of the job, to drop them from memory.
const ColdCommand = "cold"

// Main runs one of these command lines. An error is written to standard error as a
// rpc.Failure, see Error.
func Main(args []string) int {
	if len(args) > 2 && args[0] == ClockCommand && (args[1] == string(Names) || args[1] == string(Digests)) {
		code, err := runWatched(os.Stdout, Detail(args[1]), args[2:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "bee:", err)
			return 127
		}
		return code
	}
	if err := run(context.Background(), args); err != nil {
		core.BestEffort(json.NewEncoder(os.Stderr).Encode(rpc.Fail(err))) // the code reports it, too
		return 1
	}
	return 0
}

// MaxError bounds what Main writes to standard error, in bytes.
const MaxError = 128 << 10

// Error is the error that Main wrote to standard error.
func Error(stderr []byte) error {
	f, err := rpc.Decode[rpc.Failure](stderr)
	if err == nil && f.Err() != nil {
		return f.Err()
	}
	return &core.Error{Kind: core.Permanent, Op: "run bee in the container", Err: fmt.Errorf("it wrote %.200q", stderr), Remedy: core.RemedyFault}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "copy-out":
		return tarcopy.Send(ctx, os.Stdout, args[1], nil)
	case len(args) == 3 && args[0] == "copy-in":
		return tarcopy.Receive(ctx, os.Stdin, tarcopy.Target{Path: args[1], Name: args[2]}, nil)
	case len(args) == 2 && args[0] == "dial":
		return dial(ctx, args[1], os.Stdin, os.Stdout)
	case len(args) == 2 && args[0] == "stats":
		count, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return writeStats(ctx, os.Stdout, count)
	case len(args) > 0 && args[0] == ProgramsCommand:
		return findPrograms(args[1:])
	case len(args) == 2 && args[0] == watchCommand:
		return runWatch(os.Stdin, os.Stdout, Detail(args[1]))
	case len(args) > 1 && args[0] == ColdCommand:
		return writeCold(os.Stdout, args[1:])
	}
	return &core.Error{Kind: core.Invalid, Op: "read arguments", Err: errors.New("they are for bee itself"), Remedy: core.RemedyFault}
}

// dialTimeout bounds a connection within one host.
const dialTimeout = 10 * time.Second

// dial joins two streams with a port of the loopback.
func dial(ctx context.Context, port string, in io.Reader, out io.Writer) error {
	var conn net.Conn
	var err error
	for _, host := range []string{"127.0.0.1", "::1"} {
		d := net.Dialer{Timeout: dialTimeout}
		if conn, err = d.DialContext(ctx, "tcp", net.JoinHostPort(host, port)); err == nil {
			break
		}
	}
	if err != nil {
		return &core.Error{Kind: core.NotFound, Op: "connect to port", Object: port, Err: errors.New("nothing listens there in the container"), Remedy: "Wait until the program listens, and have it listen on 127.0.0.1 or on all addresses."}
	}
	defer conn.Close()
	go func() {
		core.BestEffort(io.Copy(conn, in)) // the other direction ends it
		if c, is := conn.(*net.TCPConn); is {
			core.BestEffort(c.CloseWrite())
		}
	}()
	_, err = io.Copy(out, conn)
	return err
}
