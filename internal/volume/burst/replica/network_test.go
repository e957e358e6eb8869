package replica

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// network connects hosts, some of which do not see each other at times: what is sent then waits.
type network struct {
	mu   sync.Mutex
	cond *sync.Cond
	r    *rand.Rand
	cut  map[[2]int]bool
}

func newNetwork(r *rand.Rand) *network {
	n := &network{r: r, cut: map[[2]int]bool{}}
	n.cond = sync.NewCond(&n.mu)
	return n
}

func pair(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

func (n *network) setCut(a, b int, is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[pair(a, b)] = is
	n.cond.Broadcast()
}

// chunk is on its way until a time.
type chunk struct {
	data []byte
	at   time.Time
}

// end is one end of a connection.
type end struct {
	n      *network
	pair   [2]int
	other  *end
	in     []chunk
	closed bool
}

func (n *network) connect(a, b int) (*end, *end) {
	x, y := &end{n: n, pair: pair(a, b)}, &end{n: n, pair: pair(a, b)}
	x.other, y.other = y, x
	return x, y
}

func (e *end) Read(p []byte) (int, error) {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	for {
		seen := !e.n.cut[e.pair]
		switch {
		case e.closed:
			return 0, io.ErrClosedPipe
		case seen && len(e.in) > 0 && !time.Now().Before(e.in[0].at):
			got := copy(p, e.in[0].data)
			if e.in[0].data = e.in[0].data[got:]; len(e.in[0].data) == 0 {
				e.in = e.in[1:]
			}
			return got, nil
		case seen && e.other.closed && len(e.in) == 0:
			return 0, io.EOF
		}
		e.n.cond.Wait()
	}
}

func (e *end) Write(p []byte) (int, error) {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	if e.closed || e.other.closed && !e.n.cut[e.pair] {
		return 0, io.ErrClosedPipe
	}
	at := time.Now().Add(time.Duration(e.n.r.IntN(2000)) * time.Microsecond)
	if last := len(e.other.in) - 1; last >= 0 && at.Before(e.other.in[last].at) {
		at = e.other.in[last].at
	}
	e.other.in = append(e.other.in, chunk{slices.Clone(p), at})
	time.AfterFunc(time.Until(at), func() {
		e.n.mu.Lock()
		defer e.n.mu.Unlock()
		e.n.cond.Broadcast()
	})
	return len(p), nil
}

func (e *end) Close() error {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	e.closed = true
	e.n.cond.Broadcast()
	return nil
}

// remote is where the network has the record.
const remote = -1

var errAway = errors.New("the remote is away")

// record is the remote's, which loses requests and answers, and carries some out late.
type record struct {
	n     *network
	r     *rand.Rand
	mu    sync.Mutex
	c     Configuration
	text  int // grows with each replacement
	calm  bool
	terms map[int]string // leader by term
	twice bool           // a term had two leaders
	late  sync.WaitGroup
	// pending counts replacements on their way, by leader.
	pending map[string]int
	check   func(host int, c Configuration) // looks at what a host is about to write
}

// seenBy is the record as a host sees it.
type seenBy struct {
	*record
	host int
}

func (s seenBy) away() bool {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	return s.n.cut[pair(s.host, remote)]
}

func (s seenBy) fault(of int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.calm && s.r.IntN(of) == 0
}

func (s seenBy) Read() (Configuration, []byte, error) {
	time.Sleep(5 * time.Millisecond)
	if s.away() || s.fault(12) {
		return Configuration{}, nil, errAway
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c, []byte{byte(s.text), byte(s.text >> 8)}, nil
}

func (s *record) replace(old []byte, c Configuration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(old, []byte{byte(s.text), byte(s.text >> 8)}) {
		return fs.ErrExist
	}
	s.c = c
	s.text++
	if s.terms[c.Term] != "" {
		s.twice = true
	}
	s.terms[c.Term] = c.Leader
	return nil
}

func (s seenBy) Replace(old []byte, c Configuration) error {
	s.check(s.host, c)
	time.Sleep(5 * time.Millisecond)
	if s.away() {
		return errAway
	}
	if s.fault(4) {
		s.mu.Lock()
		how, later := s.r.IntN(3), time.Duration(s.r.IntN(20000))*time.Millisecond
		s.mu.Unlock()
		switch how {
		case 0: // the answer is lost
			s.replace(old, c) //nolint:errcheck // see above
		case 1: // it is carried out late
			s.mu.Lock()
			s.pending[c.Leader]++
			s.mu.Unlock()
			s.late.Go(func() {
				time.Sleep(later)
				s.replace(old, c) //nolint:errcheck // nobody knows
				s.mu.Lock()
				defer s.mu.Unlock()
				s.pending[c.Leader]--
			})
		}
		return errAway
	}
	return s.replace(old, c)
}
