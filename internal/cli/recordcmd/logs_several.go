package recordcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/mattn/go-runewidth"
)

// logsOfSeveral shows the output of several runs, each line with the name of its run: all at
// once where it is followed, else one after the other.
func (a *Commands) logsOfSeveral(ctx context.Context, words []string, o LogsOptions) error {
	if o.controller || o.Node >= 0 || o.attempt != 0 {
		return &core.Error{Kind: core.Invalid, Op: "read arguments", Err: errors.New("--controller, --node and --attempt are about one run"), Remedy: "Name one run."}
	}
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	meaning := state.ToSee
	if o.Follow {
		meaning = state.ToReach
	}
	runs, err := s.Named(ctx, words, meaning)
	s.Close()
	if err != nil {
		return err
	}
	if o.failed {
		runs = slices.DeleteFunc(runs, func(r state.Run) bool { return !r.State.Final() || r.State == state.Succeeded })
		if len(runs) == 0 {
			a.Say("none of these runs has ended without success")
		}
	}
	if o.Follow && len(runs) > mostFollowed {
		return &core.Error{
			Kind: core.Invalid, Op: "follow", Object: strings.Join(words, " "), Err: fmt.Errorf("these are %d runs, and at most %d are followed at once", len(runs), mostFollowed),
			Remedy: "Name some of them, or leave out --follow.",
		}
	}
	prefixes := prefixesOf(runs)
	var (
		mu   sync.Mutex // lines must not mix
		all  sync.WaitGroup
		errs = make([]error, len(runs))
	)
	for i, run := range runs {
		out, say := &prefixed{to: a.Stdout, mu: &mu, prefix: prefixes[i]}, &prefixed{to: a.Stderr, mu: &mu, prefix: prefixes[i]}
		if o.asJSON {
			out.prefix = ""
		}
		one := &Commands{a.WritingTo(out, say)}
		o, ctx := o, ctx
		o.run = run.ID
		if o.until != nil {
			ctx = o.until(run.ID)
		}
		show := func() {
			errs[i] = errors.Join(one.logs(ctx, run.ID, o), out.end(), say.end())
			if o.until != nil && ctx.Err() != nil { // it was to end
				errs[i] = nil
			}
		}
		if o.Follow {
			all.Go(show)
		} else {
			show()
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// FollowSeveral shows the output of new runs until they end, each line with the name of its run.
// The context that until has of a run ends this for that one. quiet: and nothing else.
func FollowSeveral(ctx context.Context, w *workspace.Workspace, runs []string, until func(run string) context.Context, quiet bool) error {
	return (&Commands{w}).logsOfSeveral(ctx, runs, LogsOptions{Follow: true, tail: -1, Node: -1, fresh: true, until: until, quiet: quiet})
}

// isArray reports whether a word means an array of runs.
func (a *Commands) isArray(ctx context.Context, word string) (bool, error) {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return false, err
	}
	defer s.Close()
	array, err := s.Store.Arrays().Find(ctx, word, state.ToSee)
	return array.ID != "", err
}

// mostFollowed bounds the runs that are followed at once: each takes files of this process.
const mostFollowed = 100

// prefixesOf are names of runs, of one width; ids where names are equal.
func prefixesOf(runs []state.Run) []string {
	words, widest := make([]string, len(runs)), 0
	for i, r := range runs {
		words[i] = output.Printable(r.Name)
		if slices.ContainsFunc(runs, func(o state.Run) bool { return o.Name == r.Name && o.ID != r.ID }) {
			words[i] = r.ID
		}
		widest = max(widest, runewidth.StringWidth(words[i]))
	}
	for i, w := range words {
		words[i] += strings.Repeat(" ", widest-runewidth.StringWidth(w)) + " | "
	}
	return words
}

// prefixed writes whole lines, each with a prefix. A line that is too long is broken.
type prefixed struct {
	to     io.Writer
	mu     *sync.Mutex
	prefix string
	line   []byte // without its end yet
}

func (p *prefixed) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = append(p.line, data...)
	for {
		end := bytes.IndexByte(p.line, '\n')
		if end < 0 && len(p.line) < longestPiece {
			return len(data), nil
		}
		if end < 0 {
			end = longestPiece - 1
		}
		if err := p.put(bytes.TrimSuffix(p.line[:end+1], []byte{'\n'})); err != nil {
			return 0, err
		}
		p.line = p.line[end+1:]
	}
}

func (p *prefixed) put(line []byte) error {
	_, err := p.to.Write(slices.Concat([]byte(p.prefix), line, []byte{'\n'}))
	return err
}

// end writes what has no end of a line.
func (p *prefixed) end() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.line) == 0 {
		return nil
	}
	line := p.line
	p.line = nil
	return p.put(line)
}
