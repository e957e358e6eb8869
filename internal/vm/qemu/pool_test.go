package qemu

import (
	"testing"

	"github.com/bee-hpc/bee/internal/rdma/pool"
)

// TestPool: two machines have the pool of their host, whose file no QEMU can change in size.
func TestPool(t *testing.T) {
	p, err := pool.New(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	for range 2 {
		bare(t, Machine{Pool: &Pool{File: p.File(), Bytes: p.Size()}}) // which fails where QEMU does not take it
	}
}
