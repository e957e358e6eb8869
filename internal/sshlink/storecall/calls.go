// Package storecall has the calls about a store of checkpoints in a directory of the host at
// the other end of a link: a store by itself, or one that a site sees. It knows neither
// leases nor providers.
package storecall

import (
	"encoding/json"

	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
)

// The calls.
var (
	callStore   = rpc.Method[call, rpc.None]{Name: "store", By: rpc.Controller, Request: 4 * rpc.LargeSize, Within: rpc.Unlimited}
	CallKeep    = rpc.Method[call, Opened]{Name: "store-keep", By: rpc.Controller, Reply: MaxManifest, Within: rpc.Unlimited}                          // of a tree that comes over the stream
	CallRestore = rpc.Method[call, Opened]{Name: "store-restore", By: rpc.Controller, Request: MaxManifest, Reply: MaxManifest, Within: rpc.Unlimited} // to whom the stream leads

)

// MaxManifest bounds the manifest of a checkpoint in a message, in bytes.
const MaxManifest = 512 << 20

// call is a request about a store of checkpoints.
type call struct {
	// Store is a Request.
	Store json.RawMessage `json:"store"`
	// Via names a rendezvous over whose connection a tree goes, in place of the call's stream.
	Via string `json:"via,omitempty"`
}

// Check implements the check of package rpc.
func (c call) Check() error { return sshlink.CheckTexts("way", c.Via) }

// Opened answers a call that continues as a stream, or is answered at once.
type Opened struct {
	Ready bool  `json:"ready,omitempty"` // the stream continues
	Reply Reply `json:"reply"`
}

// Ended is the host's last message on the stream of a call.
type Ended struct {
	Failed rpc.Failure `json:"failed,omitzero"`
	Reply  Reply       `json:"reply"`
}

// Check implements the check of package rpc.
func (e Ended) Check() error { return e.Failed.Check() }
