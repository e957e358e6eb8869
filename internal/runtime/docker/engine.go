package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/runtime/command"
)

// Engine is a daemon that is spoken with by its API, without docker's command
// line: in an emulated machine, that takes as long to start as a container does.
type Engine struct{ client http.Client }

// NewEngine gives the daemon that listens at a Unix socket.
func NewEngine(socket string) *Engine {
	return &Engine{http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}}
}

// Ping reports whether the daemon answers.
func (e *Engine) Ping(ctx context.Context) error {
	return e.call(ctx, http.MethodGet, "/_ping", nil, nil)
}

// Load has the daemon load images from an archive.
func (e *Engine) Load(ctx context.Context, archive io.Reader) error {
	answer, err := e.ask(ctx, http.MethodPost, "/images/load?quiet=1", archive)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	printed, err := io.ReadAll(answer.Body)
	if err == nil && bytes.Contains(printed, []byte(`"error"`)) { // the status came before it
		err = errors.New(strings.TrimSpace(string(printed)))
	}
	return err
}

// RemoveImage removes an image.
func (e *Engine) RemoveImage(ctx context.Context, ref string) error {
	return e.call(ctx, http.MethodDelete, "/images/"+ref, nil, nil)
}

// Remove ends a container, if it is there, and removes it.
func (e *Engine) Remove(ctx context.Context, container string) error {
	return unlessGone(command.RemoveBy(ctx, "docker rm --force "+container, func(ctx context.Context) error {
		return e.call(ctx, http.MethodDelete, "/containers/"+container+"?force=1", nil, nil)
	}))
}

// ask makes a request, with headers (a name, a value and so on). An answer that
// reports a failure is an error.
func (e *Engine) ask(ctx context.Context, method, path string, body io.Reader, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://docker"+path, body)
	if err != nil {
		return nil, err
	}
	for h := range slices.Chunk(headers, 2) {
		r.Header.Set(h[0], h[1])
	}
	answer, err := e.client.Do(r)
	if err != nil || answer.StatusCode < http.StatusBadRequest {
		return answer, err
	}
	defer answer.Body.Close()
	var printed struct{ Message string }
	if err := json.NewDecoder(answer.Body).Decode(&printed); err != nil || printed.Message == "" {
		printed.Message = answer.Status
	}
	return nil, &core.Error{Kind: core.Permanent, Op: "use docker", Err: errors.New(printed.Message), Remedy: "`docker info` prints whether the daemon works."}
}

// call makes a request with in, if not nil, and decodes its answer into out, if
// not nil.
func (e *Engine) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	answer, err := e.ask(ctx, method, path, body, "Content-Type", "application/json")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if out == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(out)
}
