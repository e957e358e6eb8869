// Package rpc is the one way in which processes of BEE call each other: typed
// calls over a connection of package wire. Whatever another process sends is
// bounded, decoded strictly, checked and authorised here, before code of ours
// works with it. The package knows nothing of what the calls mean.
//
// A connection begins with a greeting of either end, which names the protocol
// and its version. Each call is a stream of its own: name and request of the
// caller, an answer of the other end, and from then on, where the call is one of
// Open, whatever the two ends send each other.
//
// A call is declared once, as a Method, and used by both ends. A type of a request
// or a reply with a method "Check() error" is checked where it enters.
package rpc

import "time"

// Protocol is a set of calls, of which both ends need the same version.
type Protocol struct {
	Name    string
	Version int
}

// Method declares a call: its types, who may make it, and its bounds.
type Method[Req, Resp any] struct {
	Name string
	// By are the roles that may make the call.
	By Role
	// Request and Reply are the most bytes of either, as JSON; 0: DefaultSize.
	Request, Reply int
	// Within is how long the answer may take; 0: DefaultWithin, Unlimited: no limit,
	// for calls that wait for work to be done.
	Within time.Duration
}

// None is the type of requests and replies that hold nothing.
type None struct{}

const (
	// DefaultSize bounds requests and replies, in bytes.
	DefaultSize = 1 << 20
	// LargeSize is for methods with launch specs, plans and lists of many hosts.
	LargeSize = 16 << 20
	// DefaultWithin bounds the wait for an answer.
	DefaultWithin = 5 * time.Minute
	// Unlimited waits for an answer until the connection or the context ends.
	Unlimited time.Duration = -1

	// maxName bounds a method's name, in bytes.
	maxName = 64
	// maxStreams is how many calls of one connection are answered at once.
	maxStreams = 1024
	// requestWithin bounds how long a request may be on its way.
	requestWithin = 2 * time.Minute
)

func orDefault(size int) int {
	if size == 0 {
		return DefaultSize
	}
	return size
}
