package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Gather stores the data of a tree on this machine as objects of a run, by requests that are signed elsewhere, and returns
// the manifest of its checkpoint. What is signed reads and stores objects; nothing is removed.
func Gather(ctx context.Context, sign driver.SignObject, g driver.Generation, site string, from driver.Source) ([]byte, error) {
	s := &checkpoints{bucket: &bucket{objects: newSigned(sign)}}
	all, err := s.generations(ctx)
	if err != nil {
		return nil, err
	}
	m, err := s.gather(ctx, all, g, site, from)
	if err != nil {
		return nil, err
	}
	return m.format()
}

// Times of requests that were signed elsewhere. A server that is not reached at first is not waited for.
const (
	reachTime  = 5 * time.Second
	answerTime = 2 * time.Minute
)

// signed are the objects of a run whose requests are signed elsewhere.
type signed struct {
	sign   driver.SignObject
	client *http.Client
	// reached is set once the server has answered.
	reached atomic.Bool
}

func newSigned(sign driver.SignObject) *signed {
	dialer := &net.Dialer{Timeout: reachTime}
	return &signed{sign: sign, client: &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: reachTime, ResponseHeaderTimeout: answerTime, MaxIdleConnsPerHost: 2 * atOnce,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // what was signed is for one server
	}}
}

// hostRemedy is what helps where a host does not get through to a bucket.
const hostRemedy = "Does the host reach the bucket's server? Else the checkpoint passes the submitting machine."

// do makes a request, and again where it fails for a passing reason. The answer has most bytes at most.
func (o *signed) do(ctx context.Context, method, at, ranged string, body []byte, most int64) ([]byte, error) {
	pause := fsutil.Backoff{First: 200 * time.Millisecond, Longest: 5 * time.Second}
	for try := 1; ; try++ {
		raw, status, err := o.once(ctx, method, at, ranged, body, most)
		if err == nil {
			o.reached.Store(true)
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && !o.reached.Load():
			return nil, &core.Error{Kind: core.Unsupported, Op: "reach the bucket from", Object: "this host", Err: err, Remedy: hostRemedy}
		case err == nil && (status == http.StatusOK || status == http.StatusPartialContent):
			return raw, nil
		case err == nil && status == http.StatusNotFound:
			return nil, &core.Error{Kind: core.NotFound, Op: method, Object: "an object", Err: errors.New("there is none"), Remedy: hostRemedy}
		case err == nil && status < http.StatusInternalServerError && status != http.StatusTooManyRequests:
			return nil, &core.Error{Kind: core.Unsupported, Op: method, Object: "an object", Err: fmt.Errorf("the bucket answers with status %d: %s", status, core.Printable(string(raw[:min(len(raw), 200)]), 200)), Remedy: hostRemedy}
		case try == tries:
			if err == nil {
				err = fmt.Errorf("the bucket answers with status %d", status)
			}
			return nil, &core.Error{Kind: core.Transient, Op: method, Object: "an object", Err: err, Remedy: hostRemedy}
		}
		if err := pause.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

func (o *signed) once(ctx context.Context, method, at, ranged string, body []byte, most int64) ([]byte, int, error) {
	r, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	if ranged != "" {
		r.Header.Set("Range", ranged)
	}
	answer, err := o.client.Do(r)
	if inner, is := errors.AsType[*url.Error](err); is { // without the URL, which is a right
		err = inner.Err
	}
	if err != nil {
		return nil, 0, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, most))
	return raw, answer.StatusCode, err
}

// Put implements Objects. One that is there is not stored again: all are named after what they hold.
func (o *signed) Put(ctx context.Context, name string, data []byte) error {
	a, err := o.sign(ctx, driver.ObjectRequest{Op: driver.StoreObject, Name: name, Size: int64(len(data))})
	if err != nil || a.There {
		return err
	}
	_, err = o.do(ctx, http.MethodPut, a.URL, "", data, 1<<10)
	return err
}

// Get implements Objects.
func (o *signed) Get(ctx context.Context, name string, from, length int64) ([]byte, error) {
	a, err := o.sign(ctx, driver.ObjectRequest{Op: driver.ReadObject, Name: name})
	if err != nil {
		return nil, err
	}
	ranged, most := part(from, length)
	return o.do(ctx, http.MethodGet, a.URL, ranged, nil, most)
}

// List implements Objects.
func (o *signed) List(ctx context.Context, prefix string) (map[string]int64, error) {
	a, err := o.sign(ctx, driver.ObjectRequest{Op: driver.ListObjects, Name: prefix})
	return a.List, err
}

// Delete implements Objects: the machine that signs removes objects.
func (o *signed) Delete(context.Context, []string) error { return nil }

// Tops implements Objects.
func (o *signed) Tops(context.Context) ([]string, error) { return nil, errNotSigned }

// Sign implements Objects.
func (o *signed) Sign(context.Context, driver.ObjectOp, string, int64) (string, error) {
	return "", errNotSigned
}

// Here implements Objects.
func (o *signed) Here() bool { return true }

var errNotSigned = errors.New("a host is signed requests for objects of one run only")
