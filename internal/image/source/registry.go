package source

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// ParseRef reads a reference of a registry; docker.io and latest are implied, and
// docker:// before it is what other tools write.
func ParseRef(ref string, insecure bool) (name.Reference, error) {
	var o []name.Option
	if insecure {
		o = append(o, name.Insecure)
	}
	r, err := name.ParseReference(strings.TrimPrefix(ref, "docker://"), o...)
	if err != nil {
		return nil, &core.Error{
			Kind: core.Invalid, Op: "read image reference", Object: ref, Err: err,
			Remedy: "Write it as registry.example.org/name:tag, or oci:DIR, docker-archive:FILE, docker-daemon:NAME, podman:NAME.",
		}
	}
	return r, nil
}

// Transport gives HTTP with the user's credentials for a repository: those of
// docker's and podman's configuration, their helpers included. Certificates
// are those of the system and of docker's certs.d. note reports credentials that could
// not be read.
func Transport(ctx context.Context, repo name.Repository, scope string, insecure bool, note func(string)) (http.RoundTripper, error) {
	config, err := tlsConfig(repo.RegistryStr(), insecure)
	if err != nil {
		return nil, err
	}
	base := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ReadBufferSize: 64 << 10,
		MaxIdleConnsPerHost: 8, IdleConnTimeout: idleTimeout, TLSHandshakeTimeout: handshakeTimeout, ResponseHeaderTimeout: idleTimeout,
		// One connection a layer is faster than all over one.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	auth, problem := credentials(ctx, repo, helperTime)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if problem != nil {
		note(fmt.Sprintf("%v; going on without credentials for %s", problem, repo.RegistryStr()))
	}
	rt, err := transport.NewWithContext(ctx, repo.Registry, auth, &guard{transport.NewRetry(base, transport.WithRetryBackoff(pauses()), transport.WithRetryStatusCodes(passing()...)), insecure}, []string{repo.Scope(scope)})
	if err != nil {
		return nil, denied(err, problem)
	}
	return &anonymous{rt, problem}, nil
}

// anonymous adds to a refusal why the request had no credentials.
type anonymous struct {
	inner   http.RoundTripper
	problem error // nil: they were read
}

// RoundTrip implements http.RoundTripper.
func (a *anonymous) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.inner.RoundTrip(r)
	if err == nil && a.problem != nil && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden) {
		err = denied(transport.CheckError(answer, http.StatusOK), a.problem)
		answer.Body.Close()
		return nil, err
	}
	return answer, err
}

// denied is the error of a request that may have failed for want of credentials.
func denied(err, problem error) error {
	t, answered := errors.AsType[*transport.Error](err)
	if problem == nil || !answered || t.StatusCode != http.StatusUnauthorized && t.StatusCode != http.StatusForbidden {
		return err
	}
	return &core.Error{
		Kind: core.Permanent, Op: "get image", Err: fmt.Errorf("%w; %w", problem, err),
		Remedy: "Check docker's config.json and the credential helper that it names.",
	}
}

// pauses are those between the tries of one request.
func pauses() transport.Backoff {
	return transport.Backoff{Duration: 200 * time.Millisecond, Factor: 3, Jitter: 0.2, Steps: 4}
}

// passing are the answers after which trying again may help.
func passing() []int {
	return []int{http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
}

// guard keeps credentials and images off unencrypted connections, except to
// this machine or where the user says so.
type guard struct {
	inner    http.RoundTripper
	insecure bool
}

func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !g.insecure && !isLoopback(r.URL) {
		return nil, &core.Error{
			Kind: core.Permanent, Op: "reach", Object: r.URL.Host, Err: errors.New("it does not speak TLS"),
			Remedy: "Give --insecure to `bee image pull` or `push` if you trust the network between.",
		}
	}
	return g.inner.RoundTrip(r)
}

// Registry finds an image in a registry.
func Registry(ctx context.Context, ref string, want v1.Platform, insecure bool, note func(string)) (*Image, error) {
	r, err := ParseRef(ref, insecure)
	if err != nil {
		return nil, err
	}
	rt, err := Transport(ctx, r.Context(), transport.PullScope, insecure, note)
	if err != nil {
		return nil, err
	}
	got, err := remote.Get(r, remote.WithContext(ctx), remote.WithTransport(rt))
	if err != nil {
		return nil, err
	}
	get := func(ctx context.Context, d v1.Descriptor, offset int64) (io.ReadCloser, error) {
		kind := "blobs"
		if d.MediaType.IsImage() || d.MediaType.IsIndex() {
			kind = "manifests"
		}
		u := url.URL{Scheme: r.Context().Scheme(), Host: r.Context().RegistryStr(), Path: "/v2/" + r.Context().RepositoryStr() + "/" + kind + "/" + d.Digest.String()}
		return open(ctx, rt, u, d, offset)
	}
	manifest := got.Manifest
	if isIndex(manifest) {
		if manifest, err = choose(ctx, manifest, want, "", get); err != nil {
			return nil, err
		}
	}
	i, err := assemble(ctx, manifest, get)
	if err != nil {
		return nil, err
	}
	i.Remote = true
	return i, nil
}

// open starts a transfer. It ends with an error when nothing comes for a while.
func open(ctx context.Context, rt http.RoundTripper, u url.URL, d v1.Descriptor, offset int64) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	q.Header.Set("Accept", string(d.MediaType))
	// Layers are compressed already; a length that does not count is no help.
	q.Header.Set("Accept-Encoding", "identity")
	if offset > 0 {
		q.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, d.Size-1))
	}
	answer, err := (&http.Client{Transport: rt}).Do(q)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	if err := transport.CheckError(answer, http.StatusOK, http.StatusPartialContent); err != nil {
		answer.Body.Close()
		cancel(nil)
		return nil, err
	}
	if offset > 0 && answer.StatusCode != http.StatusPartialContent {
		return newBody(answer.Body, cancel), ErrFromStart
	}
	return newBody(answer.Body, cancel), nil
}
