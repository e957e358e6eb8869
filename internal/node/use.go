package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/container"
)

// useMeter measures what this node's containers use: the one of the job, and those of cases of
// a pack.
type useMeter struct {
	current *container.Current
	taking  sync.Mutex // held while the containers are asked

	mu    sync.Mutex
	cases map[*container.Container]bool
	last  map[*container.Container]core.Sample
	ended core.Sample // what those have used that have ended
	// at and before are the time of the Use before, and what was used until then.
	at     time.Time
	before core.Sample
	// watch begins to measure GPUs by gpus; nil: there are none.
	watch func() gpuUse
	gpus  gpuUse
}

// gpuUse returns how many GPUs are in use, and how much of their memory, as far as that is known.
type gpuUse = func() (used, memory float64, known bool)

func newUseMeter(c *container.Current) *useMeter {
	return &useMeter{current: c, cases: map[*container.Container]bool{}, last: map[*container.Container]core.Sample{}}
}

// begin begins with the container of the job, which has used nothing yet.
func (u *useMeter) begin(watch func() gpuUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.at.IsZero() {
		u.at, u.watch = time.Now(), watch
	}
}

// add begins to count the container of a case.
func (u *useMeter) add(b *container.Container) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cases[b] = true
}

// remove counts what the container of a case has used, which has ended.
func (u *useMeter) remove(b *container.Container) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	exit, err := b.Wait(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.last[b]
	if err == nil {
		s.CPUSeconds = max(s.CPUSeconds, (exit.UserTime + exit.SystemTime).Seconds())
	}
	delete(u.cases, b)
	u.end(b, s)
}

func (u *useMeter) end(b *container.Container, s core.Sample) {
	delete(u.last, b)
	u.ended = total(u.ended, s)
	u.ended.MemoryBytes = 0
}

// total adds up what containers have used.
func total(x, y core.Sample) core.Sample {
	x.CPUSeconds, x.MemoryBytes = x.CPUSeconds+y.CPUSeconds, x.MemoryBytes+y.MemoryBytes
	x.ReadBytes, x.WriteBytes = x.ReadBytes+y.ReadBytes, x.WriteBytes+y.WriteBytes
	return x
}

// counted are the containers that count now.
func (u *useMeter) counted() map[*container.Container]bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	counted := map[*container.Container]bool{}
	for b := range u.cases {
		counted[b] = true
	}
	if b := u.current.Get(); b != nil {
		counted[b] = true
	}
	return counted
}

// leastUse is the shortest time over which an average says something.
const leastUse = 100 * time.Millisecond

// Use returns what the containers use, on average since the call before.
func (u *useMeter) Use(ctx context.Context) (core.Use, error) {
	u.taking.Lock()
	defer u.taking.Unlock()
	counted := u.counted()
	samples := map[*container.Container]core.Sample{}
	var failed error
	for b := range counted {
		s, err := b.Use(ctx)
		if err != nil {
			failed = err
			continue
		}
		samples[b] = s
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	switch seconds := now.Sub(u.at); {
	case len(samples) == 0 && failed != nil:
		return nil, failed
	case u.at.IsZero(), len(counted) == 0:
		return nil, &core.Error{Kind: core.Transient, Op: "measure the container", Err: errors.New("it does not run (yet, or any more)"), Remedy: core.RemedyAgain}
	case seconds < leastUse:
		return nil, &core.Error{Kind: core.Transient, Op: "measure the container", Err: errors.New("it was measured just before"), Remedy: core.RemedyAgain}
	}
	for b, s := range samples {
		if b == u.current.Get() || u.cases[b] { // else it has ended meanwhile
			u.last[b] = s
		}
	}
	sum := u.ended
	for b, s := range u.last {
		if !counted[b] { // a container of the job before this one
			u.end(b, s)
			s.MemoryBytes = 0
		}
		sum = total(sum, s)
	}
	seconds := now.Sub(u.at).Seconds()
	use := core.Use{
		core.UseCores: max(sum.CPUSeconds-u.before.CPUSeconds, 0) / seconds, core.UseMemory: float64(sum.MemoryBytes),
		core.UseRead: float64(max(sum.ReadBytes-u.before.ReadBytes, 0)) / seconds, core.UseWritten: float64(max(sum.WriteBytes-u.before.WriteBytes, 0)) / seconds,
	}
	if u.watch != nil {
		if u.gpus == nil {
			u.gpus = u.watch()
		}
		if used, memory, known := u.gpus(); known {
			use = append(use, used, memory)
		}
	}
	u.at, u.before = now, sum
	return use, use.Check()
}
