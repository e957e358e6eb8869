package recordcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/inside"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// statsView is what a node's container uses, as --json gives it.
type statsView struct {
	Run  string `json:"run"`
	Name string `json:"name"`
	Node int    `json:"node"`
	Host string `json:"host,omitempty"`
	core.Sample
	// Cores in use, on average since the sample before.
	CoresUsed           float64            `json:"cores_used"`
	ReadBytesPerSecond  int64              `json:"read_bytes_per_second"`
	WriteBytesPerSecond int64              `json:"write_bytes_per_second"`
	Error               *console.ErrorView `json:"error,omitempty"`
}

// StatsCommand returns the command `stats`.
func (a *Commands) StatsCommand() *cobra.Command {
	var once, asJSON bool
	c := &cobra.Command{
		Use: "stats [RUN...]", Short: "Show what running jobs use, by node", Args: cobra.ArbitraryArgs, ValidArgsFunction: a.RunsTo(state.ToReach),
		Long: `Show processors, memory and I/O that the processes of jobs use, for each node of the named
runs, else of all that run. Memory that processes share counts once. I/O is that of
disks, not of caches or network file systems.`,
		Example: "  bee stats\n  bee stats --no-stream --json lysozyme",
		RunE:    func(c *cobra.Command, args []string) error { return a.stats(c.Context(), args, once, asJSON) },
	}
	c.Flags().BoolVar(&once, "no-stream", false, "show it once")
	c.Flags().BoolVar(&asJSON, "json", false, "write a list as JSON; without --no-stream again and again, each on a line")
	return c
}

func (a *Commands) stats(ctx context.Context, words []string, once, asJSON bool) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	runs, err := s.Named(ctx, words, state.ToReach)
	if err == nil && len(words) == 0 {
		runs, err = s.Store.Runs(ctx, state.Filter{Active: true})
		runs = slices.DeleteFunc(runs, func(r state.Run) bool { return r.State != state.Running })
	}
	if err != nil {
		return err
	}
	ctx, cancel := console.UntilInterrupt(ctx)
	defer cancel()
	b := &board{count: 0}
	if once {
		b.count = 2
	}
	for _, run := range runs {
		if err := b.add(ctx, s, run, len(words) > 0); err != nil {
			return err
		}
	}
	defer b.close()
	ended := b.start(ctx)
	if once {
		<-ended
		return a.printStats(a.On(a.Stdout), b.views(), asJSON, false)
	}
	if asJSON {
		for core.Sleep(ctx, inside.Interval) == nil {
			if err := a.printStats(nil, b.views(), true, true); err != nil {
				return err
			}
			select {
			case <-ended:
				return nil
			default:
			}
		}
		return nil
	}
	watched, stop := context.WithCancel(ctx)
	defer stop()
	go func() { <-ended; stop() }()
	return a.Watch(watched, func(w *output.Screen) error { return a.printStats(w, b.views(), false, true) })
}

func (a *Commands) printStats(w *output.Screen, views []statsView, asJSON, line bool) error {
	switch {
	case asJSON && line:
		return a.WriteJSONLine(views)
	case asJSON:
		return a.WriteJSON(views)
	}
	t := w.List(1, 3, 9)
	t.Row("RUN", "NAME", "NODE", "HOST", "CPU", "MEMORY", "READ", "WRITTEN", "A SECOND", "PROCESSES")
	for _, v := range views {
		if v.Error != nil {
			t.Row(v.Run, v.Name, v.Node, v.Host, "-", "-", "-", "-", "-", v.Error.Message)
			continue
		}
		t.Row(v.Run, v.Name, v.Node, v.Host, fmt.Sprintf("%.0f %% of %d", 100*v.CoresUsed, v.Cores), console.BytesText(v.MemoryBytes)+" of "+console.BytesText(v.HostMemoryBytes),
			console.BytesText(v.ReadBytes), console.BytesText(v.WriteBytes), console.BytesText(v.ReadBytesPerSecond)+", "+console.BytesText(v.WriteBytesPerSecond), v.Processes)
	}
	return t.Flush()
}

// board has the last samples of nodes.
type board struct {
	mu    sync.Mutex
	count int // of samples; 0: as many as come
	nodes []*watchedNode
	done  []func()
}

type watchedNode struct {
	c    *client.Client
	rank int
	view statsView
	last core.Sample
}

// add connects to a run. Where it was named, that must work.
func (b *board) add(ctx context.Context, s *workspace.Session, run state.Run, named bool) error {
	sub, err := submission.Of(run)
	if err != nil {
		return err
	}
	c, err := s.Node(ctx, run, 0)
	if err != nil && named {
		return err
	}
	if err == nil {
		b.done = append(b.done, func() { c.Close() })
	}
	attempts, aerr := s.Store.Attempts(ctx, run.ID)
	if aerr != nil {
		return aerr
	}
	for rank := range sub.Job.Nodes {
		n := &watchedNode{c: c, rank: rank, view: statsView{Run: run.ID, Name: run.Name, Node: rank}}
		if k := len(attempts); k > 0 && len(attempts[k-1].Hosts) > rank/max(sub.Job.NodesPerHost(), 1) {
			n.view.Host = attempts[k-1].Hosts[rank/max(sub.Job.NodesPerHost(), 1)].Name
		}
		if err != nil {
			n.view.Error = console.ErrorOf(core.KindOf(err).String(), err.Error(), core.Remedy(err))
		}
		b.nodes = append(b.nodes, n)
		if err != nil {
			break
		}
	}
	return nil
}

func (b *board) close() {
	for _, d := range b.done {
		d()
	}
}

// start takes samples of all nodes. The channel is closed when none gives any more.
func (b *board) start(ctx context.Context) <-chan struct{} {
	var all sync.WaitGroup
	for _, n := range b.nodes {
		if n.view.Error != nil {
			continue
		}
		all.Go(func() {
			read, write := io.Pipe()
			go func() {
				write.CloseWithError(workspace.RunInside(ctx, n.c, n.rank, inside.Stats(b.count), nil, write))
			}()
			err := b.take(n, read)
			read.CloseWithError(workspace.ErrEnough)
			if err != nil && ctx.Err() == nil {
				b.mu.Lock()
				n.view.Error = console.ErrorOf(core.KindOf(err).String(), err.Error(), core.Remedy(err))
				b.mu.Unlock()
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	return ended
}

// take reads samples, each a line of JSON.
func (b *board) take(n *watchedNode, from io.Reader) error {
	lines := bufio.NewReaderSize(from, inside.MaxSample)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s, err := rpc.Decode[core.Sample](line)
		if err != nil {
			return err
		}
		b.mu.Lock()
		n.since(s)
		b.mu.Unlock()
	}
}

// since takes a sample, with the rates since the one before.
func (n *watchedNode) since(s core.Sample) {
	n.view.Sample = s
	if took := s.Time.Sub(n.last.Time); !n.last.Time.IsZero() && took > 0 {
		n.view.CoresUsed = max(s.CPUSeconds-n.last.CPUSeconds, 0) / took.Seconds()
		n.view.ReadBytesPerSecond = perSecond(s.ReadBytes-n.last.ReadBytes, took)
		n.view.WriteBytesPerSecond = perSecond(s.WriteBytes-n.last.WriteBytes, took)
	}
	n.last = s
}

func perSecond(bytes int64, took time.Duration) int64 {
	return int64(float64(max(bytes, 0)) / took.Seconds())
}

func (b *board) views() []statsView {
	b.mu.Lock()
	defer b.mu.Unlock()
	views := []statsView{}
	for _, n := range b.nodes {
		views = append(views, n.view)
	}
	return views
}
