// Package relay passes requests for the objects of one place on to a bucket, with credentials that only this machine
// has. The other end is a host of a site, and not believed: a request for something else than the place, or than a
// burst buffer needs, is refused. No answer contains anything of the credentials.
//
// The package knows nothing of runs and volumes, and not how connections come.
package relay

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/s3client"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

const (
	mostHeader = 64 << 10
	headerTime = 30 * time.Second
	idleTime   = 2 * time.Minute
	// answerTime bounds the wait for an answer: a bucket copies a large object meanwhile.
	answerTime = 10 * time.Minute
	// readAgain is the least time between two times at which the settings and credentials are read.
	readAgain = time.Second
)

// Relay passes requests on.
type Relay struct {
	place remote.Place
	log   *slog.Logger
	http  *http.Client

	mu     sync.Mutex
	client *s3.Client // nil: settings and credentials were not read
	read   time.Time  // when they were last
	stale  bool       // they may have been replaced since
}

// New makes a relay to the objects of a place. It does not try the bucket.
func New(p remote.Place, log *slog.Logger) *Relay {
	dialer := net.Dialer{Timeout: headerTime, KeepAlive: headerTime}
	return &Relay{place: p, log: log, http: &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: headerTime, ResponseHeaderTimeout: answerTime,
			MaxIdleConnsPerHost: 8, IdleConnTimeout: idleTime, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Serve answers the requests of connections, until the listener or ctx ends. The listener bounds their number.
func (r *Relay) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: r, DisableGeneralOptionsHandler: true, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: mostHeader, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer r.http.CloseIdleConnections()
	defer server.Close()
	defer context.AfterFunc(ctx, func() { server.Close() })()
	return server.Serve(l)
}

// ServeHTTP implements http.Handler.
func (r *Relay) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	wanted, err := check(r.place, q)
	if err != nil {
		core.BestEffort(http.NewResponseController(w).SetReadDeadline(time.Now().Add(headerTime))) // its content is not waited for
		r.log.Warn("a site has asked for what its run does not need, and was refused", "bucket", r.place.Bucket, "err", err)
		refuse(w, http.StatusForbidden, "AccessDenied", "the submitting machine passes no such request on")
		return
	}
	out, err := r.signed(q, wanted)
	if err != nil {
		r.forget()
		r.log.Warn("no request can be signed for the bucket of a burst buffer", "bucket", r.place.Bucket, "err", err)
		refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable", "the submitting machine has no valid credentials for the bucket")
		return
	}
	answer, err := r.http.Do(out)
	if err != nil {
		if q.Context().Err() == nil {
			r.log.Warn("the bucket of a burst buffer does not answer", "bucket", r.place.Bucket, "err", err)
		}
		refuse(w, http.StatusServiceUnavailable, "ServiceUnavailable", "the submitting machine has no answer of the bucket")
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		r.failed(w, answer)
		return
	}
	for name, values := range answer.Header {
		if name == "Content-Length" || name == "Content-Type" || name == "Content-Range" || name == "Etag" || name == "Last-Modified" || strings.HasPrefix(name, "X-Amz-") {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(w, answer.Body); err != nil {
		panic(http.ErrAbortHandler) // the answer is not whole
	}
}

// signed is the request to the bucket that has the content of q.
func (r *Relay) signed(q *http.Request, wanted request) (*http.Request, error) {
	ctx := q.Context()
	client, err := r.api(ctx)
	if err != nil {
		return nil, err
	}
	o := client.Options()
	credentials, err := o.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	at, err := o.EndpointResolverV2.ResolveEndpoint(ctx, s3.EndpointParameters{Bucket: &r.place.Bucket, Region: &o.Region, Endpoint: o.BaseEndpoint, ForcePathStyle: &o.UsePathStyle})
	if err != nil {
		return nil, err
	}
	to := at.URI
	if wanted.key != "" || to.Path == "" {
		to.Path, to.RawPath = strings.TrimSuffix(to.Path, "/")+"/"+wanted.key, strings.TrimSuffix(to.EscapedPath(), "/")+"/"+remote.Escape(wanted.key)
	}
	to.RawQuery = strings.ReplaceAll(wanted.query.Encode(), "+", "%20")
	out, err := http.NewRequestWithContext(ctx, q.Method, to.String(), nil)
	if err != nil {
		return nil, err
	}
	out.URL.RawPath = to.RawPath
	out.Header = wanted.header
	if q.ContentLength > 0 {
		out.Body, out.ContentLength = q.Body, q.ContentLength
	}
	return out, v4.NewSigner().SignHTTP(ctx, credentials, out, wanted.sum, "s3", o.Region, time.Now(), func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
}

// api returns the client of the bucket, whose settings and credentials are those of this machine.
func (r *Relay) api(ctx context.Context) (*s3.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil && (!r.stale || time.Since(r.read) < readAgain) {
		return r.client, nil
	}
	var err error
	r.client, err = s3client.New(context.WithoutCancel(ctx), s3client.Settings{Bucket: r.place.Bucket, Endpoint: r.place.Endpoint, Region: r.place.Region, Profile: r.place.Profile})
	r.read, r.stale = time.Now(), false
	return r.client, err
}

// forget has credentials read again, as those in use may have been replaced.
func (r *Relay) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = true
}

// mostFault bounds what is read of an answer that reports an error.
const mostFault = 64 << 10

// failed passes an error of the bucket on, by its code alone where it may be about credentials: buckets repeat what
// they do not accept.
func (r *Relay) failed(w http.ResponseWriter, answer *http.Response) {
	f := readFault(io.LimitReader(answer.Body, mostFault))
	if after := answer.Header.Get("Retry-After"); after != "" {
		if _, err := strconv.Atoi(after); err == nil {
			w.Header().Set("Retry-After", after)
		}
	}
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		r.forget()
		r.log.Warn("the bucket of a burst buffer has refused a request", "bucket", r.place.Bucket, "code", f.Code, "err", core.Printable(f.Message, 500))
		f.Message = "the bucket has refused a request that the submitting machine has signed"
	}
	if answer.Request.Method == http.MethodHead || f.Code == "" {
		w.WriteHeader(answer.StatusCode)
		return
	}
	refuse(w, answer.StatusCode, f.Code, f.Message)
}

// request is a request of the other end that is passed on.
type request struct {
	key    string // "": the bucket itself
	query  url.Values
	header http.Header
	sum    string // of the content, as it is signed
}
