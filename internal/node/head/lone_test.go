package head

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

// lone is the node of a head on one host. Its tools are the host's.
type lone struct {
	Node
	current *container.Current
}

func (lone) Tools(context.Context) (dataimage.Tools, func(), error) {
	return dataimage.Tools{}, func() {}, nil
}

func (l lone) EndContainer(grace time.Duration) core.NodeReport {
	if b := l.current.Drop(); b != nil {
		b.Stop(context.Background(), grace) //nolint:errcheck // it shows in what was done
	}
	return core.NodeReport{}
}

// partsOf are those of a head on one host.
func partsOf(t *testing.T, c plan.Config) Parts {
	t.Helper()
	on := container.NewCurrent(c.Host.Name)
	return Parts{
		Config: c, Log: slog.New(slog.DiscardHandler), Life: t.Context(), Node: lone{current: on}, Current: on,
		Machine: container.NewMachine(c, on, func() plan.Plan { return *c.Plan }, nil), Serving: &sync.WaitGroup{},
	}
}

// eventsOf are the events that a journal has.
func eventsOf(j *journal.Journal) []plan.Event {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var all []plan.Event
	j.Follow(ctx, 0, func(e plan.Event) error { all = append(all, e); return nil }) //nolint:errcheck // it ends with its context
	return all
}
