package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/node/peercall"
)

// TestAnnouncements are reported once for each content, again where the head did not answer, and until the machine is
// taken back.
func TestAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		files := map[peercall.NoticeKind]string{}
		for _, kind := range []peercall.NoticeKind{peercall.Reclaim, peercall.Maintenance, peercall.Rebalance} {
			files[kind] = filepath.Join(dir, "of-"+string(kind))
		}
		var got []string
		failures, unreadable, done := 1, 0, make(chan struct{})
		go func() {
			defer close(done)
			watchFiles(context.Background(), files, func(n peercall.Notice) error {
				if n.Kind == peercall.Rebalance && failures > 0 {
					failures--
					return errors.New("the head does not answer")
				}
				got = append(got, fmt.Sprintf("%s %.0f", n.Kind, n.Seconds/100))
				return nil
			}, func(error) { unreadable++ })
		}()
		announce := func(kind peercall.NoticeKind, text string) {
			if err := os.WriteFile(files[kind], []byte(text), 0o600); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute) // in virtual time
		}
		in := func(d time.Duration) string { return fmt.Sprintln(time.Now().Add(d).Unix()) }
		announce(peercall.Rebalance, in(-time.Second))
		announce(peercall.Maintenance, in(1000*time.Second))
		announce(peercall.Maintenance, in(2000*time.Second))
		announce(peercall.Maintenance, "soon")
		announce(peercall.Reclaim, in(100*time.Second))
		<-done
		if want := []string{"rebalance 0", "maintenance 10", "maintenance 20", " 1"}; !slices.Equal(got, want) || unreadable == 0 {
			t.Errorf("announced were %q, expected %q; %d could not be read", got, want, unreadable)
		}
	})
}
