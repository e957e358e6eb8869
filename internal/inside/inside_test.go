package inside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

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

// TestStatsEnd: with their caller.
func TestStatsEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := writeStats(ctx, io.Discard, 0); err != nil {
		t.Error(err)
	}
}
