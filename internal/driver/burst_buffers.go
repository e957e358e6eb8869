package driver

import (
	"context"

	"github.com/bee-hpc/bee/internal/core"
)

// BurstBuffers is that of a site whose hosts keep burst buffers beside the directories of runs, where no lease ends
// them.
type BurstBuffers interface {
	// Left lists burst buffers of an installation, and records that these have left. It changes nothing. Of hosts that
	// do not answer, the error has the reason, and what others have is returned.
	Left(ctx context.Context, installation string) ([]BurstBuffer, error)
	// End removes one, once its remote has everything: an I/O process that has ended earlier is started again for that.
	// End does not wait for a slow remote, and returns the buffer as it is then. With reported, changes of others on the
	// remote are known to the user, and do not keep it.
	End(ctx context.Context, b BurstBuffer, reported bool) (BurstBuffer, error)
}

// BurstBuffer is a burst buffer on a host of a site, or what one has left there.
type BurstBuffer struct {
	// Owner is the attempt whose volume it is.
	Owner core.Owner `json:"owner"`
	// Host is the host that has it, and Dir the directory of its record there.
	Host string `json:"host"`
	Dir  string `json:"dir"`
	// Via is how the submitting machine reaches the site's files of it; a driver sets that.
	Via    string `json:"via,omitempty"`
	Remote string `json:"remote,omitempty"`
	// State is what it is, and Detail more about that, for people.
	State  BufferState `json:"state"`
	Detail string      `json:"detail,omitempty"`
	// Undrained is how many bytes its remote lacks, and Changes how many changes.
	Undrained int64 `json:"undrained,omitempty"`
	Changes   int   `json:"changes,omitempty"`
}

// BufferState is what a burst buffer on a site is.
type BufferState string

// States of burst buffers.
const (
	// BufferDrained has nothing that its remote lacks, and BufferRecord has no data: either can be removed.
	BufferDrained BufferState = "drained"
	BufferRecord  BufferState = "record"
	// BufferUndrained has the only copy of something, and no process drains it. BufferDraining has an I/O process.
	BufferUndrained BufferState = "undrained"
	BufferDraining  BufferState = "draining"
	// BufferSuperseded has what is nowhere else, and its run has continued without that.
	BufferSuperseded BufferState = "superseded"
	// BufferConflicts is drained, and others have changed the remote, of which the user does not know.
	BufferConflicts BufferState = "conflicts"
	// BufferUnknown cannot be read.
	BufferUnknown BufferState = "unknown"
	// BufferRemoved is gone.
	BufferRemoved BufferState = "removed"
)
