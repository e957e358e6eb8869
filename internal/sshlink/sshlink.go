// Package sshlink connects to hosts by ssh. On each host an agent, `bee remote`, answers the
// calls of one controller; one ssh connection carries all calls and streams. Nothing is
// needed there but a login: the bee binary is copied.
//
// The system's OpenSSH client makes the connections, so that the user's whole configuration
// counts: keys, agent, known hosts, jumps, aliases. The package knows neither leases nor
// stores: those who use it add their calls to the agent.
package sshlink

import (
	"strings"
	"sync"
)

// Settings of a client.
type Settings struct {
	// Program is the ssh program; default "ssh".
	Program string
	// Options are passed to ssh as -o KEY=VALUE.
	Options map[string]string
	// BinaryFor returns the path of the bee binary for an architecture (GOARCH).
	BinaryFor func(arch string) (string, error)
	// Logins, if not nil, has the connections that other clients of this process use, too.
	// Hosts that compute carry much, and are no other's: they are better without.
	Logins *Logins
	// Progress, if not nil, is called with the bytes of the binary that a host without one has
	// received. It must not block.
	Progress func(what string, done, total int64)
}

// Client makes links with the same settings. It is safe for use by several goroutines.
type Client struct {
	s     Settings
	mu    sync.Mutex
	known map[string]binary // by architecture
	// packed are binaries, by path, that were sent compressed.
	packed map[string][]byte
	// spare are connections, by host, that may be wanted again.
	spare map[string]*Link
	// answered are the hosts that a login to has succeeded.
	answered sync.Map
	// configs of hosts that were spoken to.
	configs    configs
	poolPolicy poolPolicy
}

// New returns a client.
func New(s Settings) *Client {
	if s.Program == "" {
		s.Program = "ssh"
	}
	return &Client{s: s, poolPolicy: opensshPoolPolicy()}
}

// NameOf returns the name of a host without user and port.
func NameOf(host string) string {
	if _, after, ok := strings.Cut(host, "@"); ok {
		return after
	}
	return host
}
