package clouds

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/catalog"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

// BenchmarkLists has one process look at the machines of many runs, as it does while these do not answer. All runs are the
// same one here: each has a provider and a lease of its own.
func BenchmarkLists(b *testing.B) {
	const runs, window, look = 1000, 20 * time.Second, 2 * time.Second
	u := newUser(b, "    slot: 1h\n")
	u.ec2.Use(b)
	file, err := spec.LoadSites(u.sites)
	if err != nil {
		b.Fatal(err)
	}
	options := catalog.Options{
		StateDir: filepath.Join(u.Dir, "state"), Cache: filepath.Join(u.Dir, "cache"), Binary: testkit.Binary(b), Installation: "u", Clusters: &catalog.Clusters{},
	}
	provider := func() driver.Provider {
		p, err := catalog.Provider(file.Sites[0], options)
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	rented, err := provider().Acquire(b.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "r", Attempt: 1}, Nodes: 1, Interruptible: true, Binary: options.Binary})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := rented.Release(b.Context()); err != nil {
			b.Error(err)
		}
	}()
	const list = "DescribeInstances"
	first, begun := u.ec2.Calls(list), time.Now()
	var recovered, looks sync.WaitGroup
	leases := make([]driver.Lease, runs)
	for n := range leases {
		recovered.Go(func() {
			l, err := provider().Recover(b.Context(), rented.Handle())
			if err != nil {
				b.Error(err)
			}
			leases[n] = l
		})
	}
	recovered.Wait()
	if b.Failed() {
		b.FailNow()
	}
	for _, l := range leases {
		looks.Go(func() {
			for time.Since(begun) < window {
				if st, err := l.Status(b.Context()); err != nil || !st.Live {
					b.Errorf("%+v, %v", st, err)
				}
				time.Sleep(look)
			}
		})
	}
	looks.Wait()
	took, calls := time.Since(begun), u.ec2.Calls(list)-first
	row(b, fmt.Sprintf("lists of a region's machines by one process with %d runs whose machines do not answer, each of which looks every %s", runs, look), fmt.Sprintf("%d in %.0f s", calls, took.Seconds()),
		"one in 5 s", fmt.Sprintf("%.2f", float64(calls)/(took.Seconds()/5)))
}
