package fabric

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestNothingIsLeftOfASwitch: no file, and nobody who waits, however its parts end.
func TestNothingIsLeftOfASwitch(t *testing.T) {
	have := func() (files, routines int) {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list), runtime.NumGoroutine()
	}
	files, routines := have()
	t.Run("switches", func(t *testing.T) {
		g := mesh(t, 3)
		path := filepath.Join(t.TempDir(), "rings")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		own := New(Switch, Rings, Place{0, 1, 1}, slog.New(slog.DiscardHandler))
		if err := own.AttachRings(0, l); err != nil {
			t.Fatal(err)
		}
		hypervisor, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer hypervisor.Close()
		defer own.Close()
		hypervisor.Write([]byte{1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}) // a request, so that it is served
		if _, err := hypervisor.Read(make([]byte, 20)); err != nil {
			t.Fatal(err)
		}
		joinGuests(t, g[0], g[1]) // in place of the ones before
		lay(t, g[1], g[2], 0).cut()
		for range 100 {
			g[0].send(frame(macOf(1), macOf(0), string(make([]byte, 60000))))
		}
		g[2].f.peers[0].conns[0].fail(io.ErrUnexpectedEOF)
	})
	testkit.Eventually(t, 10*time.Second, func() error {
		runtime.GC()
		if f, r := have(); f > files || r > routines {
			return fmt.Errorf("%d files and %d goroutines, %d and %d before", f, r, files, routines)
		}
		return nil
	})
}
