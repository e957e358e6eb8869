package web

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// stream is an answer that continues. While nothing is written, an empty line is from time
// to time, so that a page notices a server that has gone.
type stream struct {
	mu  sync.Mutex
	w   http.ResponseWriter
	out *http.ResponseController
}

// aliveTime is how long a stream is silent at most.
const aliveTime = 10 * time.Second

func newStream(w http.ResponseWriter, kind string) *stream {
	w.Header().Set("Content-Type", kind)
	return &stream{w: w, out: http.NewResponseController(w)}
}

// line writes JSON on a line of its own.
func (s *stream) line(v any) error { return s.write("", v, "\n") }

// event writes JSON as a server-sent event.
func (s *stream) event(v any) error { return s.write("data: ", v, "\n\n") }

func (s *stream) write(before string, v any, after string) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.send(before + string(raw) + after)
}

func (s *stream) send(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.w.Write([]byte(text))
	if err == nil {
		err = s.out.Flush()
	}
	return err
}

// keep writes empty lines until end is called. The context that it returns ends when the
// browser has gone.
func (s *stream) keep(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(aliveTime)
		defer tick.Stop()
		for err := s.send("\n"); err == nil; err = s.send("\n") {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	})
	return ctx, func() {
		cancel()
		done.Wait()
	}
}
