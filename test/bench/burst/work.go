package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sync/errgroup"
)

// plan is what clients read and write, as a job of the simulator does: files, several at a time, first those of a
// phase that are read. A phase begins once all clients have ended the one before, and have computed.
type plan struct {
	Clients int
	At      time.Time     // when the first phase begins
	Every   time.Duration // of computing before each of the others
	Depth   int           // files at a time
	Size    int64         // of each
	Phases  []phase
}

// phase has paths of files, which the clients take in turn.
type phase struct{ Read, Write []string }

// span is when a client was in a phase.
type span struct{ Begun, Ended time.Time }

// mostLate is how late a client may begin. The time counts: all others have begun.
const mostLate = time.Second

// work carries out the part of one client of a plan.
func work(ctx context.Context, name string, client int) (spans []span, err error) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var p plan
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, err
	}
	block := make([]byte, 1<<20)
	rand.Read(block)
	begin := p.At
	for i, f := range p.Phases {
		if late := time.Since(begin); late > mostLate {
			return nil, fmt.Errorf("phase %d begins %s late", i, late)
		}
		if err := core.Sleep(ctx, time.Until(begin)); err != nil {
			return nil, err
		}
		s := span{Begun: begin}
		err := errors.Join(
			p.turns(f.Read, client, func(name string) error { return p.read(name) }),
			p.turns(f.Write, client, func(name string) error { return p.write(name, block) }))
		if err != nil {
			return nil, err
		}
		s.Ended = time.Now()
		spans = append(spans, s)
		if i == len(p.Phases)-1 {
			break
		}
		last, err := meeting(ctx, fmt.Sprintf("%s.%d", strings.TrimSuffix(name, ".json"), i), client, p.Clients)
		if err != nil {
			return nil, err
		}
		begin = last.Add(p.Every)
	}
	return spans, nil
}

// turns does something with those of some files that are a client's.
func (p *plan) turns(names []string, client int, do func(name string) error) error {
	var g errgroup.Group
	g.SetLimit(p.Depth)
	for i := client; i < len(names); i += p.Clients {
		g.Go(func() error { return do(names[i]) })
	}
	return g.Wait()
}

func (p *plan) read(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	got, buf := int64(0), make([]byte, 1<<20)
	for {
		n, err := f.Read(buf)
		got += int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if got != p.Size {
		return fmt.Errorf("%s has %d bytes instead of %d", name, got, p.Size)
	}
	return nil
}

func (p *plan) write(name string, block []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	for at := int64(0); at < p.Size && err == nil; at += int64(len(block)) {
		_, err = f.Write(block[:min(int64(len(block)), p.Size-at)])
	}
	return errors.Join(err, f.Close())
}
