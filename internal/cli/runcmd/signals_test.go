package runcmd

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestSignalsThatComeTogetherAreOne(t *testing.T) {
	begun := time.Now()
	var r repeats
	for _, c := range []struct {
		got   os.Signal
		after time.Duration
		again bool
	}{
		{syscall.SIGTERM, 0, false},
		{syscall.SIGTERM, time.Millisecond, true},
		{syscall.SIGINT, 10 * time.Millisecond, false},
		{syscall.SIGINT, 15 * time.Millisecond, true},
		{syscall.SIGINT, 500 * time.Millisecond, false}, // a person
		{syscall.SIGTERM, 1900 * time.Millisecond, true},
		{syscall.SIGHUP, 1950 * time.Millisecond, false},
		{syscall.SIGHUP, 1950 * time.Millisecond, false},
		{syscall.SIGTERM, 2100 * time.Millisecond, false},
	} {
		if got := r.again(c.got, begun.Add(c.after)); got != c.again {
			t.Errorf("%v after %v is the same again: %v", c.got, c.after, got)
		}
	}
}
