package core

import (
	"errors"
	"testing"
)

// TestTogether: each function waits for the other, and no error is lost.
func TestTogether(t *testing.T) {
	one, other := errors.New("one"), errors.New("other")
	met := make(chan struct{})
	err := Together([]func() error{
		func() error { met <- struct{}{}; return one },
		func() error { <-met; return other },
		func() error { return nil },
	})
	if !errors.Is(err, one) || !errors.Is(err, other) {
		t.Errorf("got %v", err)
	}
	if err := Together(nil); err != nil {
		t.Errorf("of nothing: %v", err)
	}
}
