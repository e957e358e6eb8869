package nodecmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/inside"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/wire"
	"github.com/spf13/cobra"
)

// ForwardCommand returns the command `forward`.
func (a *Commands) ForwardCommand() *cobra.Command {
	var rank int
	c := &cobra.Command{
		Use: "forward RUN PORT[:PORT]", Short: "Reach a port of a running job on this machine", Args: cobra.ExactArgs(2), ValidArgsFunction: a.RunsTo(state.ToReach),
		Long: `Forward a port of this machine to a port in the container of a running job, such as that
of Jupyter, over BEE's own connection. With two ports, the first is that of this machine;
0 is any that is free. Only programs of this machine can connect, at 127.0.0.1: of all its
users, so protect what listens in the job by a password or token. It ends with the run and
with Ctrl-C; when the run continues on another site, it leads there.`,
		Example: "  bee forward notebook 8888\n  bee forward --node 1 solver 9000:80",
		RunE: func(c *cobra.Command, args []string) error {
			here, there, err := portsOf(args[1])
			if err != nil {
				return err
			}
			return a.forwardPort(c.Context(), args[0], rank, here, there)
		},
	}
	c.Flags().IntVar(&rank, "node", 0, "`rank` of the node in whose container the port is")
	return c
}

// portsOf reads PORT or PORT:PORT.
func portsOf(word string) (here, there int, err error) {
	first, second, both := strings.Cut(word, ":")
	if !both {
		second = first
	}
	h, err1 := strconv.ParseUint(first, 10, 16)
	t, err2 := strconv.ParseUint(second, 10, 16)
	if err1 != nil || err2 != nil || t == 0 {
		return 0, 0, &core.Error{Kind: core.Invalid, Op: "read ports", Object: word, Err: errors.New("expected PORT or PORT:PORT"), Remedy: "Write for example 8888, or 9000:80 for port 80 of the job at port 9000 here."}
	}
	return int(h), int(t), nil
}

func (a *Commands) forwardPort(ctx context.Context, word string, rank, here, there int) error {
	s, run, err := a.OpenRun(ctx, word)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := console.UntilInterrupt(ctx)
	defer cancel()
	route := &nodeRoute{s: s, run: run, rank: rank}
	defer route.close()
	if _, err := route.client(ctx); err != nil { // now, as nothing listens where nobody answers
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(here)))
	if err != nil {
		return &core.Error{Kind: core.Busy, Op: "listen on port", Object: strconv.Itoa(here), Err: err, Remedy: "Name another port of this machine, as in 9000:" + strconv.Itoa(there) + ", or 0 for any."}
	}
	ended := make(chan state.Run, 1)
	go func() {
		if over, err := s.AwaitEnds(ctx, []state.Run{run}, true); err == nil {
			ended <- over[0]
		}
		l.Close()
	}()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	if _, err := fmt.Fprintf(a.Stdout, "http://%s\n", l.Addr()); err != nil {
		return err
	}
	a.Say("127.0.0.1 leads to port %d of node %d of run %s; Ctrl-C ends it", there, rank, run.ID)
	// Any user of this machine may connect: access is for the program in the job to control.
	g := wire.Gate{Most: mostForwarded, Failed: func(err error) { a.PrintError(err) }}
	inner, end := context.WithCancel(ctx)
	defer end()
	g.Serve(l, func(c net.Conn, known func() bool) {
		defer c.Close()
		known()
		stop := context.AfterFunc(inner, func() { c.Close() })
		defer stop()
		if err := route.join(inner, c, there); err != nil && inner.Err() == nil && !errors.As(err, new(*net.OpError)) { // its own end is no error
			a.PrintError(err)
		}
	})
	select {
	case over := <-ended:
		a.Say("run %s is %s: nothing is forwarded any more", over.ID, over.State)
	default:
	}
	return nil
}

// nodeRoute is a connection to a node of a run, made again where it has ended.
type nodeRoute struct {
	s    *workspace.Session
	run  state.Run
	rank int
	mu   sync.Mutex
	now  *client.Client
}

func (w *nodeRoute) client(ctx context.Context) (*client.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now != nil {
		return w.now, nil
	}
	run, err := w.s.Store.Run(ctx, w.run.ID)
	if err == nil {
		w.now, err = w.s.Node(ctx, run, w.rank)
	}
	if err != nil {
		w.now = nil
	}
	return w.now, err
}

// drop gives up a connection that has ended.
func (w *nodeRoute) drop(c *client.Client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == c {
		w.now = nil
		c.Close()
	}
}

func (w *nodeRoute) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now != nil {
		w.now.Close()
	}
}

// join carries one connection to a port in the container.
func (w *nodeRoute) join(ctx context.Context, conn net.Conn, port int) error {
	for begun := time.Now(); ; {
		c, err := w.client(ctx)
		if err != nil {
			return err
		}
		if _, err = c.Health(ctx); err == nil {
			return workspace.RunInside(ctx, c, w.rank, inside.Dial(port), conn, conn)
		}
		w.drop(c)
		if !workspace.Ended(err) || time.Since(begun) > workspace.StartTime {
			return err
		}
	}
}
