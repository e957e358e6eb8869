package core

import (
	"errors"
	"strings"
	"testing"
)

func TestCaughtKeepsTheFirstStack(t *testing.T) {
	inner := Caught(func() error { var hosts []int; return errors.New(string(rune(hosts[3]))) })
	p, is := errors.AsType[*Panic](inner)
	if !is || !strings.Contains(p.Stack, "TestCaughtKeepsTheFirstStack") || !strings.Contains(p.Error(), "index out of range") {
		t.Fatalf("got %v", inner)
	}
	if again := Caught(func() error { panic(p) }); !errors.Is(again, error(p)) {
		t.Errorf("passed on, it is %v", again)
	}
	want := errors.New("an error")
	if err := Caught(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}
