package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/s3client"
	"github.com/bee-hpc/bee/internal/store"
)

// Settings say where a bucket is. What is "" is found as AWS's own tools find
// it, and so are the credentials: in the environment, in ~/.aws, or from the
// machine. They are kept in memory only.
type Settings struct {
	Bucket, Prefix            string
	Endpoint, Region, Profile string
}

// S3 are the objects of a bucket.
type S3 struct {
	client *s3.Client
	s      Settings
}

// NewS3 finds the way to a bucket; it does not try it.
func NewS3(ctx context.Context, s Settings) (*S3, error) {
	client, err := s3client.New(ctx, s3client.Settings{Bucket: s.Bucket, Endpoint: s.Endpoint, Region: s.Region, Profile: s.Profile})
	if err != nil {
		return nil, err
	}
	return &S3{client, s}, nil
}

// tries is how often a call is made that fails for a passing reason.
const tries = s3client.Tries

func (b *S3) key(name string) *string {
	if b.s.Prefix != "" {
		name = b.s.Prefix + "/" + name
	}
	return &name
}

// Put implements Objects.
func (b *S3) Put(ctx context.Context, name string, data []byte) error {
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.s.Bucket, Key: b.key(name), Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data)))})
	return b.explain("write to", err)
}

// part returns the header for a part of an object, as Objects.Get has it, and how many bytes that is at most.
func part(from, length int64) (ranged string, most int64) {
	switch {
	case from < 0:
		return fmt.Sprintf("bytes=%d", from), min(mostObject, -from)
	case length > 0:
		return fmt.Sprintf("bytes=%d-%d", from, from+length-1), min(mostObject, length)
	}
	return "", mostObject
}

// Get implements Objects.
func (b *S3) Get(ctx context.Context, name string, from, length int64) ([]byte, error) {
	in := &s3.GetObjectInput{Bucket: &b.s.Bucket, Key: b.key(name)}
	ranged, most := part(from, length)
	if ranged != "" {
		in.Range = &ranged
	}
	for try := 1; ; try++ {
		out, err := b.client.GetObject(ctx, in)
		if err == nil {
			var raw []byte
			raw, err = io.ReadAll(io.LimitReader(out.Body, most)) // whatever is sent
			out.Body.Close()
			if err == nil {
				return raw, nil
			}
			if try < tries && ctx.Err() == nil { // it broke in the middle, of which the client knows nothing
				continue
			}
		}
		return nil, b.explain("read from", err)
	}
}

// List implements Objects.
func (b *S3) List(ctx context.Context, prefix string) (map[string]int64, error) {
	found := map[string]int64{}
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.s.Bucket, Prefix: b.key(prefix)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, b.explain("list", err)
		}
		for _, o := range page.Contents {
			found[strings.TrimPrefix(aws.ToString(o.Key), *b.key(""))] = aws.ToInt64(o.Size)
		}
		if len(found) > mostObjects {
			return nil, b.tooMany()
		}
	}
	return found, nil
}

// Tops implements Objects.
func (b *S3) Tops(ctx context.Context) ([]string, error) {
	var names []string
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{Bucket: &b.s.Bucket, Prefix: b.key(""), Delimiter: aws.String("/")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, b.explain("list", err)
		}
		for _, p := range page.CommonPrefixes {
			names = append(names, strings.Trim(strings.TrimPrefix(aws.ToString(p.Prefix), *b.key("")), "/"))
		}
		if len(names) > store.MostNames {
			return nil, b.tooMany()
		}
	}
	return names, nil
}

// Delete implements Objects.
func (b *S3) Delete(ctx context.Context, names []string) error {
	const most = 1000
	for len(names) > 0 {
		n := min(len(names), most)
		list := make([]types.ObjectIdentifier, n)
		for i, name := range names[:n] {
			list[i].Key = b.key(name)
		}
		out, err := b.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &b.s.Bucket, Delete: &types.Delete{Objects: list, Quiet: aws.Bool(true)}})
		if err != nil {
			return b.explain("remove from", err)
		}
		for _, e := range out.Errors {
			if code := aws.ToString(e.Code); code != "NoSuchKey" {
				return b.explain("remove from", &smithy.GenericAPIError{Code: code, Message: aws.ToString(e.Message)})
			}
		}
		names = names[n:]
	}
	return nil
}

// signedTime is for how long a URL is good: a host stores the object at once.
const signedTime = 15 * time.Minute

// Sign implements Objects.
func (b *S3) Sign(ctx context.Context, op driver.ObjectOp, name string, size int64) (string, error) {
	var signed *v4.PresignedHTTPRequest
	var err error
	c, within := s3.NewPresignClient(b.client), s3.WithPresignExpires(signedTime)
	if op == driver.StoreObject {
		signed, err = c.PresignPutObject(ctx, &s3.PutObjectInput{Bucket: &b.s.Bucket, Key: b.key(name), ContentLength: &size}, within)
	} else {
		signed, err = c.PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &b.s.Bucket, Key: b.key(name)}, within)
	}
	if err != nil {
		return "", b.explain("sign a request to", err)
	}
	return signed.URL, nil
}

// Here implements Objects.
func (b *S3) Here() bool {
	u, err := url.Parse(aws.ToString(b.client.Options().BaseEndpoint))
	if err != nil {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(u.Hostname(), "localhost")
}

// mostObjects is how many objects of a run are looked at: of a volume of some tens of
// terabytes.
const mostObjects = 4 << 20

func (b *S3) tooMany() error {
	return &core.Error{Kind: core.Invalid, Op: "list the bucket", Object: b.s.Bucket, Err: errors.New("it has more in it than bee can have made"), Remedy: "Use a prefix of its own for bee: s3://BUCKET/PREFIX."}
}

func (b *S3) explain(op string, err error) error { return s3client.Explain(op, b.s.Bucket, err) }
