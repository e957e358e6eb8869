package s3client

import (
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// bounded is a client that reads no answer without end: an object is bounded where it is
// read, a page of a list and an error here.
type bounded struct{ s3.HTTPClient }

// MostPage bounds a page of a list, in bytes: of 1000 names of 1024 bytes, however they are
// written.
const MostPage = 16 << 20

// Do implements s3.HTTPClient.
func (b bounded) Do(r *http.Request) (*http.Response, error) {
	answer, err := b.HTTPClient.Do(r)
	query := r.URL.Query()
	object := r.Method == http.MethodGet && !query.Has("list-type") && !query.Has("uploads")
	if err == nil && (!object || answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusPartialContent) {
		answer.Body = &page{answer.Body, MostPage}
	}
	return answer, err
}

type page struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (p *page) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, errPage
	}
	n, err := p.ReadCloser.Read(b[:min(len(b), p.left)])
	p.left -= n
	return n, err
}

var errPage = fmt.Errorf("its answer has more than %d bytes", MostPage)
