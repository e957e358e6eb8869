package ssh

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// BenchmarkMove brings a volume home over real ssh, for the first time and after
// 1 % of its pages have changed, against rsync over the same ssh.
func BenchmarkMove(b *testing.B) {
	const size, page = 1 << 30, 4096
	rsync := testkit.RequireTool(b, "rsync")
	f := sshfarm.Start(b, 1)
	l, err := site(b, f, "h0").Acquire(b.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "move", Attempt: 1}, Nodes: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Release(context.WithoutCancel(b.Context()))
	remote := filepath.Join(l.Hosts()[0].Dir, "volume")
	noise := rand.NewChaCha8([32]byte{})
	file, err := os.Create(filepath.Join(b.TempDir(), "state"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, 1<<20)
	for range size / len(block) {
		noise.Read(block) //nolint:errcheck // it cannot fail
		if _, err := file.Write(block); err != nil {
			b.Fatal(err)
		}
	}
	change := func() {
		for range size / page / 100 {
			noise.Read(block[:page]) //nolint:errcheck // it cannot fail
			if _, err := file.WriteAt(block[:page], int64(noise.Uint64()%(size/page))*page); err != nil {
				b.Fatal(err)
			}
		}
		if err := l.Stage(b.Context(), driver.Transfer{Local: filepath.Dir(file.Name()), Remote: remote}); err != nil {
			b.Fatal(err)
		}
	}
	change()
	home := b.TempDir()
	n := 0
	bee := func(before string) func(b *testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				n++
				var travelled int64
				err := l.Fetch(b.Context(), driver.Transfer{Remote: remote, Local: filepath.Join(home, fmt.Sprint(n)), Again: true, Before: before, Progress: func(n int64) { travelled = n }})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(travelled)/size*100, "%travelled")
				os.RemoveAll(filepath.Join(home, fmt.Sprint(n-1))) //nolint:errcheck // space, not correctness
			}
			b.SetBytes(size)
		}
	}
	with := func(fresh bool) func(b *testing.B) {
		return func(b *testing.B) {
			to := filepath.Join(home, "rsync")
			for b.Loop() {
				if fresh {
					os.RemoveAll(to) //nolint:errcheck // the next line tells
				}
				if out, err := exec.Command(rsync, "-a", "-e", filepath.Join(f.Bin, "ssh"), "h0:"+remote+"/", to).CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
			}
			b.SetBytes(size)
		}
	}
	b.Run("first", bee(""))
	before := filepath.Join(home, fmt.Sprint(n))
	b.Run("first by rsync", with(true))
	change()
	b.Run("again", bee(before))
	b.Run("again by rsync", with(false))
}
