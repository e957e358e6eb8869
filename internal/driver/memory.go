package driver

import (
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// Memory is what a host can give virtual machines, in bytes: now, and if nothing
// else used any. Free is 0 where that is unknown.
type Memory struct {
	Free int64 `json:"free,omitempty"`
	All  int64 `json:"all,omitempty"`
	// Reserved is what runs of the same user hold of it for their guests, of which
	// what these have not taken yet is not free.
	Reserved []Reserved `json:"promised,omitempty"`
}

// Reserved is how much memory a run holds for its guests, in bytes.
type Reserved struct {
	Run   string `json:"run"`
	Bytes int64  `json:"bytes"`
}

// Enough refuses guests that want more than is free: as busy where the host would
// have it if others left, so that waiting helps.
func (m Memory) Enough(host string, guests, each int64) error {
	if m.Free == 0 || guests*each <= m.Free {
		return nil
	}
	e := &core.Error{
		Kind: core.Unsupported, Op: "start virtual machines on", Object: host,
		Err:    fmt.Errorf("%d of %d MiB each are wanted there, and %d MiB are free", guests, each>>20, m.Free>>20),
		Remedy: "Ask for less by `vm: {memory: …}`, or for fewer virtual machines on a host.",
	}
	if guests*each <= m.All {
		e.Kind, e.Err = core.Busy, fmt.Errorf("%w now, of %d MiB", e.Err, m.All>>20)
		var held []string
		for _, p := range m.Reserved {
			held = append(held, fmt.Sprintf("run %s has reserved %d MiB", p.Run, p.Bytes>>20))
		}
		if len(held) > 0 {
			e.Err = fmt.Errorf("%w; %s", e.Err, strings.Join(held, ", "))
		}
		e.Remedy = "Others use the rest: `wait: 1h` in the Beefile has the run ask again until it is free, for an hour. " + e.Remedy
	}
	return e
}
