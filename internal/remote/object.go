package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/s3client"
)

// object is one of a bucket.
type object struct {
	file   File
	client *s3.Client
}

func newObject(ctx context.Context, file File) (source, error) {
	client, err := newClient(ctx, file)
	if err != nil {
		return nil, err
	}
	return &object{file, client}, nil
}

// newClient finds the way to a bucket, but to no address that nobody may lead to.
func newClient(ctx context.Context, file File) (*s3.Client, error) {
	guard := &guard{proxies: map[string]bool{}}
	return s3client.New(ctx, s3client.Settings{
		Bucket: file.Bucket, Endpoint: file.Endpoint, Region: file.Region, Profile: file.Profile,
		HTTP: &http.Client{
			Transport:     &http.Transport{Proxy: guard.proxy, DialContext: guard.dial, TLSHandshakeTimeout: 30 * time.Second, ResponseHeaderTimeout: time.Minute, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // as AWS's own client
		},
	})
}

// open implements source.
func (o *object) open(ctx context.Context, from int64, have version) (answer, error) {
	in := &s3.GetObjectInput{Bucket: &o.file.Bucket, Key: &o.file.Key}
	if from > 0 {
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", from))
	} else {
		have.Tag = ""
	}
	if tag := cmp.Or(have.Tag, o.file.Tag); tag != "" {
		in.IfMatch = &tag
	}
	out, err := o.client.GetObject(ctx, in)
	if err != nil {
		if code := s3client.Status(err); from > 0 && (code == http.StatusPreconditionFailed || code == http.StatusRequestedRangeNotSatisfiable) {
			return answer{}, errGone
		} else if code == http.StatusPreconditionFailed {
			return answer{}, changedObject(o.file)
		}
		if refused := (refusedAddress{}); errors.As(err, &refused) {
			return answer{}, &core.Error{Kind: core.Permanent, Op: "fetch", Object: o.file.String(), Err: refused, Remedy: "Check the endpoint of the bucket."}
		}
		err = s3client.Explain("read from", o.file.Bucket, err)
		if core.IsKind(err, core.NotFound) {
			err = &core.Error{Kind: core.NotFound, Op: "fetch", Object: o.file.String(), Err: err, Remedy: "Check the key, and that you may read it."}
		}
		return answer{}, err
	}
	a := answer{body: out.Body, version: version{Tag: aws.ToString(out.ETag), Total: -1}}
	if out.ContentLength != nil {
		a.Total = *out.ContentLength
	}
	if from > 0 && out.ContentRange != nil {
		if a.from, a.Total, err = contentRange(*out.ContentRange); err == nil && a.from != from {
			err = fmt.Errorf("it begins at byte %d, and %d was asked for", a.from, from)
		}
	}
	if err == nil && (a.Total < 0 || len(a.Tag) > 1024) {
		err = errors.New("it does not say how long the object is, or names no version of it")
	}
	if err != nil {
		out.Body.Close()
		return answer{}, &core.Error{Kind: core.Permanent, Op: "fetch", Object: o.file.String(), Err: fmt.Errorf("the server's answer cannot be: %w", err), Remedy: "Check the endpoint of the bucket."}
	}
	return a, nil
}
