package procid

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestLife(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Parse(id.String()); err != nil || got != id {
		t.Fatalf("got %v, %v", got, err)
	}
	if !id.Alive() {
		t.Fatal("not alive")
	}
	for name, other := range map[string]ID{"start": {id.PID, id.Start + 1, id.Boot}, "boot": {id.PID, id.Start, "x"}, "zero": {}} {
		if other.Alive() {
			t.Errorf("other %s: alive", name)
		}
		if found, err := other.Signal(unix.SIGKILL); found || err != nil {
			t.Errorf("other %s: %v, %v", name, found, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := id.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait: %v", err)
	}
	// Not reaped yet, so it stays a zombie: that counts as ended.
	for range 2 {
		if err := id.Kill(t.Context()); err != nil || id.Alive() {
			t.Fatalf("kill: %v", err)
		}
	}
	_ = cmd.Wait()
}

func TestParseErrors(t *testing.T) {
	for _, s := range []string{"", "1", "1 2", "x 2 b", "1 x b", "0 1 b", "-1 1 b", "1 2 b c"} {
		if _, err := Parse(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
	if _, err := Of(os.Getpid()); err != nil {
		t.Error(err)
	}
}
