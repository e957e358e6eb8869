package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// mostRedirects is how often a server may send us on.
const mostRedirects = 10

// web is a file behind https.
type web struct {
	file   File
	client *http.Client
}

func newWeb(file File) (source, error) {
	u, err := url.Parse(file.URL)
	if err == nil && (u.Scheme != "https" && !(u.Scheme == "http" && file.Signed) || u.Hostname() == "" || u.User != nil) {
		err = errors.New("it is no URL of https without credentials")
	}
	if err != nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "fetch", Object: file.String(), Err: err, Remedy: "Check `from:` of the input."}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	guard := newGuard(u.Hostname(), port)
	guard.away = file.Away
	transport := &http.Transport{
		Proxy: guard.proxy, DialContext: guard.dial, TLSHandshakeTimeout: 30 * time.Second, ResponseHeaderTimeout: time.Minute,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, DisableCompression: true, MaxResponseHeaderBytes: 1 << 20,
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		r.Header.Del("Referer")
		switch {
		case file.Signed:
			return redirected{errors.New("its bucket leads elsewhere")}
		case len(via) > mostRedirects:
			return redirected{errors.New("it leads from one address to the next without end")}
		case r.URL.Scheme != "https":
			return redirected{fmt.Errorf("it leads to an address of %.20q, not https", r.URL.Scheme)}
		case r.URL.User != nil:
			return redirected{errors.New("it leads to an address with credentials")}
		}
		return guard.literal(r.URL.Hostname(), r.URL.Port())
	}}
	return &web{file, client}, nil
}

// redirected is the error of a redirect that is not followed.
type redirected struct{ error }

// open implements source.
func (w *web) open(ctx context.Context, from int64, have version) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.file.URL, nil)
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("User-Agent", "bee")
	if from > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		if validator := cmp.Or(have.Tag, have.Modified); validator != "" && !w.file.Signed {
			r.Header.Set("If-Range", validator)
		}
	} else {
		have.Tag = ""
	}
	if tag := cmp.Or(have.Tag, w.file.Tag); tag != "" && w.file.Signed {
		r.Header.Set("If-Match", tag)
	}
	resp, err := w.client.Do(r)
	if err != nil {
		return answer{}, w.explain(err)
	}
	a, err := w.read(resp, from)
	if err != nil {
		resp.Body.Close()
	}
	return a, err
}

// read takes an answer apart.
func (w *web) read(resp *http.Response, from int64) (answer, error) {
	a := answer{body: resp.Body, version: version{Modified: header(resp, "Last-Modified"), Total: -1}}
	if tag := header(resp, "ETag"); strings.HasPrefix(tag, `"`) { // others are weak
		a.Tag = tag
	}
	switch resp.StatusCode {
	case http.StatusOK:
		a.Total = resp.ContentLength
		return a, nil
	case http.StatusPartialContent:
		begin, total, err := contentRange(resp.Header.Get("Content-Range"))
		if err == nil && (begin != from || from == 0) {
			err = fmt.Errorf("it begins at byte %d, and %d was asked for", begin, from)
		}
		if err != nil {
			return a, w.fail(core.Permanent, fmt.Errorf("the server's answer cannot be: %w", err), "Its server does not do what HTTP says: take the file from elsewhere.")
		}
		a.from, a.Total = begin, total
		return a, nil
	case http.StatusRequestedRangeNotSatisfiable, http.StatusPreconditionFailed:
		if from > 0 {
			return a, errGone
		}
		if resp.StatusCode == http.StatusPreconditionFailed && w.file.Tag != "" {
			return a, changedObject(w.file)
		}
	}
	err := fmt.Errorf("the server answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound, code == http.StatusGone:
		return a, w.fail(core.NotFound, err, "Check the address: open it in a browser.")
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return a, w.fail(core.Permanent, err, "Files behind a login cannot be fetched: download it, and name the file, or use s3://.")
	case code >= http.StatusInternalServerError, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return a, w.fail(core.Transient, err, "Try again later.")
	}
	return a, w.fail(core.Permanent, err, "Check the address: open it in a browser.")
}

// header is a validator of the server's, where it is one that can be sent back.
func header(resp *http.Response, name string) string {
	v := resp.Header.Get(name)
	if len(v) > 1024 {
		return ""
	}
	return v
}

// contentRange reads "bytes 5-9/10"; total is -1 for "*".
func contentRange(text string) (begin, total int64, err error) {
	bad := fmt.Errorf("its Content-Range is %.60q", text)
	span, size, is := strings.Cut(strings.TrimPrefix(text, "bytes "), "/")
	first, last, two := strings.Cut(span, "-")
	begin, err1 := strconv.ParseInt(first, 10, 64)
	end, err2 := strconv.ParseInt(last, 10, 64)
	if total = -1; size != "*" {
		total, err = strconv.ParseInt(size, 10, 64)
	}
	if !is || !two || errors.Join(err1, err2, err) != nil || begin < 0 || end < begin || total >= 0 && end != total-1 {
		return 0, 0, bad
	}
	if total < 0 {
		total = end + 1
	}
	return begin, total, nil
}

// explain gives an error of the client's a kind and a remedy. The address that it names may
// be one with credentials, to which the server has led.
func (w *web) explain(err error) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	switch {
	case errors.As(err, new(redirected)):
		return w.fail(core.Permanent, err, "Name the address that it leads to, if you trust that.")
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return w.fail(core.Permanent, err, "If its authority is your own, name that by SSL_CERT_FILE.")
	case errors.As(err, new(refusedAddress)):
		return w.fail(core.Permanent, err, "Bee fetches nothing from there: copy the file, and name the copy.")
	}
	return w.fail(core.Transient, err, "Does its server answer, and is a proxy needed (HTTPS_PROXY)?")
}

// changedObject is the error of an object that has another version than the run's other attempts
// had.
func changedObject(file File) error {
	return &core.Error{
		Kind: core.Permanent, Op: "fetch", Object: file.String(), Err: errors.New("it has changed since the run began"),
		Remedy: "All attempts of a run have the same version: run the job again.",
	}
}

func (w *web) fail(kind core.Kind, err error, remedy string) error {
	return &core.Error{Kind: kind, Op: "fetch", Object: w.file.String(), Err: err, Remedy: remedy}
}
