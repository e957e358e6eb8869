package guest

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/node/execute"
)

func text(o api.TaskOutput) string {
	var b strings.Builder
	for _, p := range o.Pieces {
		b.Write(p.Data)
	}
	return b.String()
}

// TestOutputIsKeptUntilTheHostHasIt: a caller that asks from a byte on has what comes
// before it, and may ask for the same again.
func TestOutputIsKeptUntilTheHostHasIt(t *testing.T) {
	k := &task{}
	k.changed.L = &k.mu
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var output execute.Output
	output.Pass(r, func(data []byte) error { return k.keep(false, data) })
	for _, s := range []string{"one", "two"} {
		w.WriteString(s) // what is missing is noticed
		for got := ""; !strings.HasSuffix(got, s); got = text(k.output(t.Context(), 0)) {
		}
	}
	for _, c := range []struct {
		from int64
		want string
	}{{0, "onetwo"}, {2, "etwo"}, {2, "etwo"}, {3, "two"}} {
		if got := text(k.output(t.Context(), c.from)); got != c.want {
			t.Errorf("from %d on: %q, want %q", c.from, got, c.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if o := k.output(ctx, 6); len(o.Pieces) > 0 || o.Exit != nil || k.from != 6 {
		t.Errorf("there is nothing more, and it gives %+v", o)
	}
	// A host that is away for long holds the command up, and loses nothing.
	much := strings.Repeat("0123456789abcdef", (mostKept+1<<20)/16)
	go func() {
		w.WriteString(much)
		w.Close()
	}()
	var got strings.Builder
	for got.Len() < len(much) {
		piece := text(k.output(t.Context(), int64(6+got.Len())))
		got.WriteString(piece)
		if len(piece) > mostAtOnce+64<<10 {
			t.Fatalf("%d bytes at once", len(piece))
		}
	}
	if got.String() != much {
		t.Error("it is not what was written")
	}
	output.Wait()
	k.exit = &core.Exit{Code: 7}
	if o := k.output(t.Context(), int64(6+len(much))); o.Exit == nil || o.Exit.Code != 7 {
		t.Errorf("it gives %+v at its end", o)
	}
}
