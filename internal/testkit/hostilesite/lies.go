package hostilesite

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
)

// lies are those of one connection, and how often each was reported.
type lies struct {
	mu   sync.Mutex
	all  []Lie
	seen []int
}

func newLies(all []Lie) *lies { return &lies{all: all, seen: make([]int, len(all))} }

// answer is what goes to the caller.
type answer struct {
	message json.RawMessage
	raw     []byte
	hang    bool
	refuse  string
}

// meant reports whether a lie is about an answer, and counts it.
func (l *lies) meant(i int, of, call, path string, message map[string]any) bool {
	lie := l.all[i]
	if lie.Of != of || lie.Call != call || !strings.HasSuffix(path, lie.Path) {
		return false
	}
	if _, has := message[lie.Has]; lie.Has != "" && !has {
		return false
	}
	for field, want := range lie.Where {
		raw, _ := json.Marshal(want)
		var plain any
		json.Unmarshal(raw, &plain) //nolint:errcheck // see above
		if !reflect.DeepEqual(message[field], plain) {
			return false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[i]++
	return l.seen[i] > lie.After && (lie.Times == 0 || l.seen[i] <= lie.After+lie.Times)
}

// before does what lies want done before a call.
func (l *lies) before(ctx context.Context, of, call, path, dir string) error {
	for i, lie := range l.all {
		if lie.Run == "" && lie.PatchFile == nil || !l.meant(i, of, call, path, nil) {
			continue
		}
		if lie.PatchFile != nil {
			raw, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, merged(raw, lie.PatchFile), 0o600)
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			continue
		}
		c := exec.CommandContext(ctx, "/bin/sh", "-c", lie.Run)
		c.Dir, c.Env, c.Stderr = dir, append(os.Environ(), "P="+path), os.Stderr
		if err := c.Run(); err != nil {
			return err
		}
	}
	return nil
}

// about gives what is reported in place of one answer.
func (l *lies) about(of, call, path string, message json.RawMessage) []answer {
	first, further := answer{message: message}, []answer(nil)
	for i, lie := range l.all {
		var fields map[string]any
		json.Unmarshal(first.message, &fields) //nolint:errcheck // else it is no object
		if lie.Run != "" || lie.PatchFile != nil || !l.meant(i, of, call, path, fields) {
			continue
		}
		if lie.Patch != nil {
			first.message = merged(first.message, lie.Patch)
		}
		first.hang, first.refuse = first.hang || lie.Hang, first.refuse+lie.Error
		if lie.Raw != nil { // none at all is reported, too
			first.raw = append([]byte{}, lie.Raw...)
		}
		for range lie.Repeat {
			further = append(further, answer{message: first.message})
		}
		for _, m := range lie.Then {
			raw, _ := json.Marshal(m)
			further = append(further, answer{message: raw})
		}
	}
	return append([]answer{first}, further...)
}

// merged is a message with a patch in it, as RFC 7396 has it.
func merged(message json.RawMessage, patch any) json.RawMessage {
	var to, with any
	raw, _ := json.Marshal(patch)
	json.Unmarshal(raw, &with)   //nolint:errcheck // see above
	json.Unmarshal(message, &to) //nolint:errcheck // then it is replaced
	out, _ := json.Marshal(merge(to, with))
	return out
}

func merge(to, patch any) any {
	with, is := patch.(map[string]any)
	if !is {
		return patch
	}
	was, _ := to.(map[string]any)
	all := map[string]any{}
	for k, v := range was {
		all[k] = v
	}
	for k, v := range with {
		if v == nil {
			delete(all, k)
			continue
		}
		all[k] = merge(all[k], v)
	}
	return all
}
