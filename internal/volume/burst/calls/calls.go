// Package calls is what the client of a burst buffer and its I/O process send each other.
// It holds data only.
package calls

import (
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/locks"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// Protocol is that of the I/O process.
var Protocol = rpc.Protocol{Name: "burst", Version: 4}

// Hello begins a session of a client.
type Hello struct {
	// Client is a random number, the same after the connection was lost.
	Client uint64 `json:"client"`
	// Open are the files that it has open.
	Open []OpenFile `json:"open,omitempty"`
	// Locks are those that it has.
	Locks []locks.Held `json:"locks,omitempty"`
	// Afar is whether it runs on another host. Its session then outlives a lost connection for a while.
	Afar bool `json:"afar,omitempty"`
	// Again is whether it had a session before.
	Again bool `json:"again,omitempty"`
}

// ReturnTime is how long a client on another host tries to come back.
const ReturnTime = time.Minute

// Welcome answers a Hello.
type Welcome struct {
	// Over is whether the client's session is over for good: it was away for too long, and
	// others may have got its locks.
	Over bool `json:"over,omitempty"`
}

// OpenFile is a file that a client has open, so many times.
type OpenFile struct {
	Ino   uint64 `json:"ino"`
	Count int    `json:"count"`
}

// Status is what a volume is about to do.
type Status struct {
	ID     string `json:"id"`
	Remote string `json:"remote"`
	Mount  string `json:"mount,omitempty"` // where a client has it mounted
	// Clients is how many have it mounted.
	Clients int `json:"clients,omitempty"`
	// Undrained is how many written bytes the remote lacks, Changes how many changes,
	// Oldest since when.
	Undrained int64      `json:"undrained"`
	Changes   int        `json:"changes"`
	Oldest    *time.Time `json:"oldest,omitempty"`
	Drained   bool       `json:"drained"`
	// Head is the number of the oldest change that the remote lacks; 0: there is none.
	Head uint64 `json:"head,omitempty"`
	// Local is how many bytes of files stay in the buffer, and are removed with it.
	Local int64 `json:"local,omitempty"`
	// Waits is what the drain waits for; empty while it works, or has nothing to do.
	Waits string `json:"waits,omitempty"`
	// Refused is why the remote refuses the next change; absent: it does not.
	Refused *Refused `json:"refused,omitempty"`
	// Buffer is how many bytes the buffer takes of Room on the disk at Place.
	Buffer int64 `json:"buffer"`
	// Cached is how many bytes of Room, beside these, have what was read of the remote.
	Cached int64  `json:"cached"`
	Room   int64  `json:"room"`
	Place  string `json:"place"`
	// Published counts what was drained since the buffer is there, in bytes and files.
	Published int64 `json:"published"`
	Files     int64 `json:"files"`
	// BytesPerSecond is how fast the last files were drained, and Seconds when everything is at that rate;
	// absent: that is not known.
	BytesPerSecond int64    `json:"bytes_per_second"`
	Seconds        *float64 `json:"seconds_to_drain,omitempty"`
	// Hits and Misses count bytes that were read from the buffer and from the remote.
	Hits   int64 `json:"hits"`
	Misses int64 `json:"misses"`
	// Written counts bytes that programs have written, and Delayed those of them that waited for room.
	Written int64 `json:"written"`
	Delayed int64 `json:"delayed"`
	// ReadRate and WriteRate are what programs read and write now, in bytes per second.
	ReadRate  int64           `json:"read_bytes_per_second"`
	WriteRate int64           `json:"write_bytes_per_second"`
	Conflicts []meta.Conflict `json:"conflicts,omitempty"`
	// Generation is the newest checkpoint of a run that the remote has; 0: none.
	Generation int `json:"generation,omitempty"`
	// Ended is why the I/O process has ended before everything was done; empty: it has not.
	Ended string `json:"ended,omitempty"`
	// Copies are the names of the copies that have everything that is undrained, that of the leader first; empty: there
	// is one, without a name.
	Copies []string `json:"copies,omitempty"`
	// Superseded is whether another attempt of the run has taken the remote over: nothing of this
	// volume is drained any more.
	Superseded bool `json:"superseded,omitempty"`
}

// Refused is a change that the remote refuses until a user mends the reason.
type Refused struct {
	Reason remote.Reason `json:"reason"`
	// Since is when it was refused first, and Last when it was tried last.
	Since time.Time `json:"since"`
	Last  time.Time `json:"last"`
	// Final is whether programs get it as an error, and nobody waits for the drain any more.
	Final  bool   `json:"final,omitempty"`
	Remedy string `json:"remedy"`
}

// Published is the number of the newest change when all was queued; 0: none was ever made.
type Published struct {
	Last uint64 `json:"last"`
}

// CheckpointRequest asks for a checkpoint.
type CheckpointRequest struct {
	// Also are names that belong to it beside those that match its patterns: what links lead to.
	Also []string `json:"also,omitempty"`
	// Quiet refuses one, as Busy, while something that belongs to it was changed less than a second ago.
	Quiet bool `json:"quiet,omitempty"`
}

// Barrier is the number of a checkpoint that was queued.
type Barrier struct {
	Number int `json:"number"`
}

// PrefetchRequest asks for files from the remote.
type PrefetchRequest struct {
	Globs []string `json:"globs"`
}

// Prefetched counts files that were copied into the buffer.
type Prefetched struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	Left  int   `json:"left,omitempty"` // files for which there was no room, or that could not be read
}

// KeysOffer has credentials for the bucket.
type KeysOffer struct {
	Keys core.BucketKeys `json:"keys"`
	// Spare is whether a process that has others keeps these, unless they have expired.
	Spare bool `json:"spare,omitempty"`
}

// KeysReply answers a KeysOffer.
type KeysReply struct {
	// Refused is the answer of the bucket, for which the process keeps the credentials that it has; empty: there is none.
	Refused string `json:"refused,omitempty"`
}

// RelayRequest reports whether the submitting machine passes requests for the bucket on.
type RelayRequest struct {
	Use bool `json:"use"`
}

// Leading answers Leads.
type Leading struct {
	Leads bool `json:"leads"`
	// Copy is the name of the process's copy, where it leads.
	Copy string `json:"copy,omitempty"`
}

// FollowRequest names a copy of the journal, and its end; zeros: it has nothing yet.
type FollowRequest struct {
	Copy    string `json:"copy"`
	Segment uint64 `json:"segment,omitempty"`
	At      int64  `json:"at,omitempty"`
}

// IndexRequest asks for published files with larger numbers than one.
type IndexRequest struct {
	After uint64 `json:"after"`
}

// IndexReply has files by number. More follow those up to Last, if More is set.
type IndexReply struct {
	Files []Indexed `json:"files,omitempty"`
	Last  uint64    `json:"last"`
	More  bool      `json:"more,omitempty"`
	// Undrained counts files with changes that the remote lacks, and Unknown those without a digest.
	Undrained int64 `json:"undrained"`
	Unknown   int64 `json:"unknown"`
}

// Indexed is a file as it was published last.
type Indexed struct {
	Ino     uint64         `json:"ino"`
	Path    string         `json:"path"` // on the remote
	Version remote.Version `json:"version"`
	Sum     string         `json:"sum"`
}

// Calls.
//

var (
	StatusCall = rpc.Method[rpc.None, Status]{Name: "status", By: rpc.Controller, Reply: rpc.LargeSize}
	// Publish queues what was written to files that are still open.
	Publish = rpc.Method[rpc.None, Published]{Name: "publish", By: rpc.Controller}
	// Checkpoint queues a checkpoint of all that was written so far. The remote has it once Status.Generation
	// is that number.
	Checkpoint = rpc.Method[CheckpointRequest, Barrier]{Name: "checkpoint", By: rpc.Controller, Request: rpc.LargeSize}
	// UseKeys replaces the credentials for the bucket, or gives some to a process that has none.
	// OfferKeys does so, and has the bucket's answer.
	UseKeys   = rpc.Method[core.BucketKeys, rpc.None]{Name: "use-keys", By: rpc.Controller}
	OfferKeys = rpc.Method[KeysOffer, KeysReply]{Name: "offer-keys", By: rpc.Controller}
	// UseRelay has requests for the bucket pass the submitting machine, or not.
	UseRelay = rpc.Method[RelayRequest, rpc.None]{Name: "use-relay", By: rpc.Controller}
	// Prefetch copies files into the buffer.
	Prefetch = rpc.Method[PrefetchRequest, Prefetched]{Name: "prefetch", By: rpc.Controller, Request: rpc.LargeSize, Within: rpc.Unlimited}
	// IndexCall lists published files with their digests.
	IndexCall = rpc.Method[IndexRequest, IndexReply]{Name: "index", By: rpc.Controller, Reply: rpc.LargeSize}
	// Leads asks whether the process answers clients. One that follows that of another host does not.
	Leads = rpc.Method[rpc.None, Leading]{Name: "leads", By: rpc.Controller}
	// Follow has the process keep the copy of another one like its journal. What these send each other follows.
	Follow = rpc.Method[FollowRequest, rpc.None]{Name: "follow", By: rpc.Controller}
	// Files begins a session: requests and replies of this package follow, in frames.
	Files = rpc.Method[Hello, Welcome]{Name: "files", By: rpc.Controller, Request: rpc.LargeSize}
)
