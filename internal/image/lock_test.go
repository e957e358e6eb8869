package image

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhoWaitsIsTold that another makes what is wanted.
func TestWhoWaitsIsTold(t *testing.T) {
	s := store(t)
	other, err := s.dir.lock(t.Context(), "thing", unix.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	reported := make(chan string, 1)
	got := make(chan error, 1)
	o := PullOptions{Progress: func(message string, _, _ int64) { reported <- message }}
	go func() {
		f, err := s.dir.lockToMake(t.Context(), "thing", o)
		if err == nil {
			err = f.Close()
		}
		got <- err
	}()
	if text := <-reported; text != "another bee is at this image; waiting for it" {
		t.Errorf("told %q", text)
	}
	other.Close()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	f, err := s.dir.lockToMake(t.Context(), "thing", o)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if len(reported) > 0 {
		t.Errorf("told %q with nobody there", <-reported)
	}
}
