package image

import (
	"context"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestWhoWaitsIsTold that another makes what is wanted.
func TestWhoWaitsIsTold(t *testing.T) {
	s := store(t)
	other, err := s.dir.lock(t.Context(), "thing", unix.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	never := func() bool { return false }
	reported := make(chan string, 1)
	got := make(chan error, 1)
	o := PullOptions{Progress: func(message string, _, _ int64) { reported <- message }}
	go func() {
		f, err := s.dir.lockToMake(t.Context(), "thing", o, never)
		if err == nil {
			err = f.Close()
		}
		got <- err
	}()
	testkit.Wording(t, "waiting", <-reported)
	other.Close()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	f, err := s.dir.lockToMake(t.Context(), "thing", o, never)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if len(reported) > 0 {
		t.Errorf("reported %q, and no other process had the lock", <-reported)
	}
}

// TestWhoWaitsForAThingUsesItOnceItIsThere: its users have it locked for as long as they run.
func TestWhoWaitsForAThingUsesItOnceItIsThere(t *testing.T) {
	s := store(t)
	user, err := s.dir.lock(t.Context(), "thing", unix.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	looked := 0
	f, err := s.dir.lockToMake(ctx, "thing", PullOptions{}, func() bool { looked++; return looked > 1 })
	if f != nil || err != nil || looked != 2 {
		t.Errorf("got %v, %v after %d looks", f, err, looked)
	}
}
