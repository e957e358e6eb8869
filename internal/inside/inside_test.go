package inside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
)

func TestDialJoinsStreams(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		all, _ := io.ReadAll(c) // until the other end has closed its half
		c.Write([]byte("got " + string(all)))
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	var out bytes.Buffer
	if err := dial(t.Context(), port, strings.NewReader("question"), &out); err != nil || out.String() != "got question" {
		t.Errorf("%v: %q", err, out.String())
	}
	l.Close()
	if err := dial(t.Context(), port, strings.NewReader(""), &out); !core.IsKind(err, core.NotFound) || core.Remedy(err) == "" {
		t.Errorf("where nobody listens: %v", err)
	}
}

func TestErrorsCrossTheContainer(t *testing.T) {
	raw, err := json.Marshal(rpc.Fail(&core.Error{Kind: core.NotFound, Op: "read", Object: "x", Err: errors.New("gone"), Remedy: "Look."}))
	if err != nil {
		t.Fatal(err)
	}
	if err := Error(raw); !core.IsKind(err, core.NotFound) || core.Remedy(err) != "Look." {
		t.Errorf("got %v", err)
	}
	for _, other := range []string{"", "{}", "sh: not found", `{"kind":"nonsense","message":"x"}`} {
		if err := Error([]byte(other)); !core.IsKind(err, core.Permanent) {
			t.Errorf("%q: %v", other, err)
		}
	}
}

// TestStatsOfProcesses: of a process that computes, and of what it has started.
func TestStatsOfProcesses(t *testing.T) {
	c := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done & while :; do :; done")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait() //nolint:errcheck // it is killed
	defer syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	m := meter{proc: "/proc", root: c.Process.Pid, self: os.Getpid(), io: map[int]usedIO{}}
	end := time.Now().Add(10 * time.Second)
	for {
		s := m.sample()
		if s.Check() == nil && s.Processes == 2 && s.CPUSeconds > 0 && s.MemoryBytes > 0 && s.Cores > 0 && s.HostMemoryBytes > s.MemoryBytes {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("got %+v", s)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestWhatHasEndedCounts, so that sums of bytes never shrink.
func TestWhatHasEndedCounts(t *testing.T) {
	dir := t.TempDir()
	put := func(pid int, parent int, read int) {
		p := dir + "/" + strconv.Itoa(pid)
		if err := errors.Join(os.MkdirAll(p, 0o755),
			os.WriteFile(p+"/stat", []byte(strconv.Itoa(pid)+" (a ) b) S "+strconv.Itoa(parent)+" 0 0 0 0 0 0 0 0 0 100 50 25 25 0 0 0 0 0 0 7"), 0o600),
			os.WriteFile(p+"/io", []byte("rchar: 9\nread_bytes: "+strconv.Itoa(read)+"\nwrite_bytes: 1\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	m := meter{proc: dir, root: 10, self: 99, io: map[int]usedIO{}}
	put(10, 1, 5)
	put(11, 10, 7)
	put(12, 1, 1000) // of another user
	put(99, 10, 1000)
	s := m.sample()
	if s.Processes != 2 || s.CPUSeconds != 4 || s.ReadBytes != 12 || s.WriteBytes != 2 || s.MemoryBytes != 2*7*int64(os.Getpagesize()) {
		t.Errorf("got %+v", s)
	}
	if err := os.RemoveAll(dir + "/11"); err != nil {
		t.Fatal(err)
	}
	if s := m.sample(); s.Processes != 1 || s.ReadBytes != 12 {
		t.Errorf("then %+v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := writeStats(ctx, io.Discard, 0); err != nil {
		t.Error(err)
	}
}
