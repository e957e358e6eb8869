package treesync

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkManyFiles moves a tree of small files, and again after one in a hundred was
// rewritten, as bee does and as rsync (and tar) do, in turn: seconds, and those of
// processors, for all who take part.
func BenchmarkManyFiles(b *testing.B) {
	const files = 20_000
	dir := b.TempDir()
	from := filepath.Join(dir, "from")
	size := func(i int) int { return 1024 + i*7919%(15<<10) }
	name := func(i int) string { return filepath.Join(from, fmt.Sprintf("d%02d/f%d", i%64, i)) }
	data := noise(16<<10, 1)
	for i := range files {
		must(b, os.MkdirAll(filepath.Dir(name(i)), 0o755))
		must(b, os.WriteFile(name(i), data[:size(i)], 0o644))
	}
	run := func(args ...string) func() {
		return func() {
			out, err := exec.Command(args[0], args[1:]...).CombinedOutput() // what is compared with
			if err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	}
	bee := func(n string, before ...string) func() {
		return func() { move(b, from, filepath.Join(dir, n), before...) }
	}
	rsync := run("rsync", "-a", from+"/", filepath.Join(dir, "rsync"))
	tar := run("sh", "-c", fmt.Sprintf("mkdir %s/tar && tar -C %s -cf - . | tar -C %s/tar -xf -", dir, from, dir))
	turn := 0
	for b.Loop() {
		turn++
		n := func(i int) string { return fmt.Sprintf("%d.%d", turn, i) }
		change := func() {
			random := rand.New(rand.NewPCG(uint64(turn), 1)) // which files does not matter
			for range files / 100 {
				i := random.IntN(files)
				must(b, os.WriteFile(name(i), data[len(data)-size(i):], 0o644))
			}
		}
		clock(b, "first", bee(n(1)))
		clock(b, "rsync-first", rsync)
		clock(b, "tar-first", tar)
		change()
		clock(b, "again", bee(n(2), filepath.Join(dir, n(1))))
		clock(b, "rsync-again", rsync)
		run("diff", "-r", from, filepath.Join(dir, n(2)))()
		for _, made := range []string{n(1), n(2), "rsync", "tar"} {
			must(b, os.RemoveAll(filepath.Join(dir, made)))
		}
	}
}

// clock reports what something takes, once nothing is left to be written from before.
func clock(b *testing.B, name string, do func()) {
	b.Helper()
	unix.Sync()
	begun, used := time.Now(), processors(b)
	do()
	wall, cpu := time.Since(begun), processors(b)-used
	b.Logf("%-12s %6.3f s, %6.3f s of processors", name, wall.Seconds(), cpu.Seconds())
}

// processors is the time that this process and those which it has waited for used.
func processors(b *testing.B) time.Duration {
	b.Helper()
	sum := int64(0)
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		must(b, unix.Getrusage(who, &u))
		sum += u.Utime.Nano() + u.Stime.Nano()
	}
	return time.Duration(sum)
}

// move is carry over a socket, as between processes.
func move(b *testing.B, from, to string, before ...string) {
	b.Helper()
	l, err := net.Listen("unix", filepath.Join(b.TempDir(), "s"))
	must(b, err)
	defer l.Close()
	go func() {
		far, err := l.Accept()
		if err != nil {
			return
		}
		defer far.Close()
		if known, err := Agree(far, from); err == nil {
			SendOver(b.Context(), far, from, known, nil) //nolint:errcheck // the receiver shows it
		}
	}()
	near, err := net.Dial("unix", l.Addr().String())
	must(b, err)
	defer near.Close()
	basis, err := NewBasis(b.Context(), to, before...)
	must(b, err)
	must(b, basis.Keyed().SendKnown(b.Context(), near))
	must(b, ReceiveOver(b.Context(), near, to, basis))
}
