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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/s3client"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

const (
	mostHeader = 64 << 10
	headerTime = 30 * time.Second
	idleTime   = 2 * time.Minute
	// answerTime bounds the wait for an answer: a bucket copies a large object meanwhile.
	answerTime = 10 * time.Minute
	// readAgain and mostReadAgain are the least times between two readings of settings and credentials, at first and
	// once they were read often: a site may cause readings, which run the user's programs. After calm without one,
	// the first counts again.
	readAgain     = time.Second
	mostReadAgain = time.Minute
	calm          = 2 * time.Minute
	// keysTime bounds a program or a server that gives credentials.
	keysTime = time.Minute
)

// Relay passes requests on.
type Relay struct {
	place remote.Place
	log   *tally
	http  *http.Client

	mu     sync.Mutex
	client *s3.Client // nil: settings and credentials were not read
	lacks  error      // why there are no credentials; nil: there are some
	stale  bool       // they may have been replaced since
	next   time.Time  // before that they are not read again
	pause  fsutil.Backoff
}

// New makes a relay to the objects of a place. It does not try the bucket.
func New(p remote.Place, log *slog.Logger) *Relay {
	dialer := net.Dialer{Timeout: headerTime, KeepAlive: headerTime}
	pause := fsutil.Backoff{First: readAgain, Longest: mostReadAgain, Exact: true}
	return &Relay{place: p, log: &tally{log: log.With("bucket", p.Bucket)}, pause: pause, http: &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: headerTime, ResponseHeaderTimeout: answerTime,
			MaxIdleConnsPerHost: 8, IdleConnTimeout: idleTime, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Serve answers the requests of connections, until the listener or ctx ends. The listener bounds their number.
func (r *Relay) Serve(ctx context.Context, l net.Listener) error {
	defer r.log.flush()
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
		r.log.warn("a site has asked for what its run does not need, and was refused", "err", err)
		refuse(w, http.StatusForbidden, "AccessDenied", "the submitting machine passes no such request on")
		return
	}
	out, err := r.signed(q, wanted)
	if err != nil {
		r.log.warn(noCredentials, "err", err)
		refuse(w, http.StatusServiceUnavailable, remote.RelayHasNoKeys, "the submitting machine has no valid credentials for the bucket")
		return
	}
	answer, err := r.http.Do(out)
	if err != nil {
		if q.Context().Err() == nil {
			r.log.warn("the bucket of a burst buffer does not answer", "err", err)
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
	var to io.Writer = w
	if answer.ContentLength < 0 {
		to = &promptly{w, http.NewResponseController(w)}
		core.BestEffort(to.Write(nil))
	}
	if _, err := io.Copy(to, answer.Body); err != nil {
		panic(http.ErrAbortHandler) // the answer is not whole
	}
}

// promptly passes on at once what is written: a bucket that copies an object for long sends a byte now and then
// meanwhile, and the other end waits for no silent one.
type promptly struct {
	to      io.Writer
	control *http.ResponseController
}

// Write implements io.Writer.
func (p *promptly) Write(b []byte) (int, error) {
	n, err := p.to.Write(b)
	if err == nil {
		err = p.control.Flush()
	}
	return n, err
}

// noCredentials is what the log has where no request can be signed.
const noCredentials = "this machine has no valid credentials for the bucket of a burst buffer: set them up here, as for AWS's tools"

// signed is the request to the bucket that has the content of q.
func (r *Relay) signed(q *http.Request, wanted request) (*http.Request, error) {
	ctx := q.Context()
	client, credentials, err := r.access()
	if err != nil {
		return nil, err
	}
	o := client.Options()
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

// access returns the client of the bucket and its credentials, which are those of this machine. Those that cannot be
// had are not asked for by each request.
func (r *Relay) access() (*s3.Client, aws.Credentials, error) {
	ctx, cancel := context.WithTimeout(context.Background(), keysTime) // a request that ends breaks off none of another
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); (r.client == nil || r.stale) && !now.Before(r.next) {
		if now.Sub(r.next) > calm {
			r.pause.Reset()
		}
		r.client, r.lacks = s3client.New(ctx, s3client.Settings{Bucket: r.place.Bucket, Endpoint: r.place.Endpoint, Region: r.place.Region, Profile: r.place.Profile})
		r.stale, r.next = false, now.Add(r.pause.Next())
	}
	if r.lacks != nil {
		return nil, aws.Credentials{}, r.lacks
	}
	c, err := r.client.Options().Credentials.Retrieve(ctx)
	if err != nil {
		r.lacks, r.stale = err, true
	}
	return r.client, c, err
}

// forget has credentials read again, as those in use may have been replaced.
func (r *Relay) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = true
}

// mostFault bounds what is read of an answer that reports an error.
const mostFault = 64 << 10

// aboutKeys are codes of answers that say that credentials are not, or no longer, valid.
var aboutKeys = []string{
	"", "AccountProblem", "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidToken", "NotSignedUp", "SignatureDoesNotMatch", "TokenRefreshRequired", "UnrecognizedClientException", "XAdminUserNotFound", "XMinioInvalidToken",
}

// usual reports whether an answer only says that an object is not there, or is another one than was asked for.
func usual(status int, code string) bool {
	switch status {
	case http.StatusNotModified, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		return true
	case http.StatusNotFound:
		return code == "" || code == "NoSuchKey" || code == "NoSuchUpload"
	}
	return false
}

// failed passes an error of the bucket on by its code alone: buckets repeat what they do not accept.
func (r *Relay) failed(w http.ResponseWriter, answer *http.Response) {
	f := readFault(io.LimitReader(answer.Body, mostFault))
	if after := answer.Header.Get("Retry-After"); after != "" {
		if _, err := strconv.Atoi(after); err == nil {
			w.Header().Set("Retry-After", after)
		}
	}
	if !usual(answer.StatusCode, f.Code) {
		r.log.warn("the bucket of a burst buffer has refused a request", "status", answer.StatusCode, "code", f.Code, "err", f.Message)
		if answer.StatusCode < http.StatusInternalServerError && slices.Contains(aboutKeys, f.Code) {
			r.forget()
		}
	}
	if answer.Request.Method == http.MethodHead || f.Code == "" {
		w.WriteHeader(answer.StatusCode)
		return
	}
	refuse(w, answer.StatusCode, f.Code, "the bucket has refused a request that the submitting machine has signed")
}

// request is a request of the other end that is passed on.
type request struct {
	key    string // "": the bucket itself
	query  url.Values
	header http.Header
	sum    string // of the content, as it is signed
}
