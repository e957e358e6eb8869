package server

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// Links asks for connections with the brokers of other machines, as queue pairs need them.
type Links struct {
	life   context.Context
	server *Server
	ask    func(ctx context.Context, rank int) error

	mu     sync.Mutex
	wanted map[int]bool // nodes that a connection is being asked for
}

// NewLinks returns those of a server that forwards, for as long as a context. ask asks once for a connection with the
// broker of a node, which Serve then gets.
func NewLinks(life context.Context, s *Server, ask func(ctx context.Context, rank int) error) *Links {
	return &Links{life: life, server: s, ask: ask, wanted: map[int]bool{}}
}

// Want asks until there is a connection with the broker of a node, unless that is under way. It returns at once.
func (l *Links) Want(rank int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wanted[rank] {
		return
	}
	l.wanted[rank] = true
	go l.make(rank)
}

// Renew has the connection with the broker of a node, which claims to have none, be made again.
func (l *Links) Renew(rank int) {
	l.server.Doubt(rank)
	l.Want(rank)
}

// Serve is Server.Serve.
func (l *Links) Serve(ctx context.Context, c net.Conn, rank int) error {
	return l.server.Serve(ctx, c, rank)
}

func (l *Links) make(rank int) {
	backoff := fsutil.Backoff{First: 20 * time.Millisecond, Longest: 500 * time.Millisecond}
	for !l.server.Linked(rank) {
		if err := l.ask(l.life, rank); err != nil {
			l.server.log.Debug("link bee_0 with that of another host", "rank", rank, "err", err)
		}
		if backoff.Wait(l.life) != nil {
			return
		}
	}
	l.mu.Lock()
	delete(l.wanted, rank)
	l.mu.Unlock()
	if !l.server.Linked(rank) { // it has broken meanwhile, and was not asked for twice
		l.Want(rank)
	}
}
