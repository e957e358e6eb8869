package storecall

import (
	"encoding/json"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
)

func TestChecksOfCalls(t *testing.T) {
	for _, e := range []Ended{{Failed: rpc.Failure{Kind: "odd"}}, {Failed: rpc.Failure{Message: "no kind"}}} {
		if err := e.Check(); !core.IsKind(err, core.Invalid) {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if err := (call{Via: "a\x00"}).Check(); !core.IsKind(err, core.Invalid) {
		t.Error(err)
	}
}

// FuzzReplies: whatever an agent replies is refused or usable.
func FuzzReplies(f *testing.F) {
	for _, v := range []any{Ended{}, Opened{}, asked{}} {
		raw, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(_ *testing.T, raw []byte) {
		rpc.Decode[Opened](raw) //nolint:errcheck // it must end, no more
		rpc.Decode[Ended](raw)  //nolint:errcheck // likewise
		rpc.Decode[asked](raw)  //nolint:errcheck // likewise
	})
}
