package openstack

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/driver"
)

const (
	// stallTime is how long an upload may be halted.
	stallTime = 2 * time.Minute
	// storeTime is how long a service may take to answer once it has all: it copies that to its own store.
	storeTime = 30 * time.Minute
)

// errStalled is the cause of the end of an upload that was halted.
var errStalled = errors.New("nothing was taken of it for some time, or no answer came to it")

// upload is content on its way to a service, with its digests. It may be sent again from its beginning.
type upload struct {
	content *io.SectionReader
	size    int64
	report  func(done, total int64)

	mu    sync.Mutex
	sums  map[string]hash.Hash
	done  int64
	timer *time.Timer // nil: nobody watches
}

func newUpload(d driver.MachineDisk, report func(done, total int64)) *upload {
	u := &upload{content: io.NewSectionReader(d.Content, 0, d.Size), size: d.Size, report: report}
	u.begin()
	return u
}

func (u *upload) begin() {
	u.done, u.sums = 0, map[string]hash.Hash{"sha256": sha256.New(), "sha512": sha512.New(), "md5": md5.New()}
}

// watched returns a context that ends once the upload is halted for long.
func (u *upload) watched(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.timer = time.AfterFunc(stallTime, func() { cancel(errStalled) })
	return ctx, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.timer.Stop()
		cancel(nil)
	}
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n, err := u.content.Read(p)
	for _, sum := range u.sums {
		sum.Write(p[:n])
	}
	u.done += int64(n)
	if u.timer != nil {
		limit := stallTime
		if u.done >= u.size {
			limit = storeTime
		}
		u.timer.Reset(limit)
	}
	u.report(u.done, u.size)
	return n, err
}

// Seek implements io.Seeker, for a call that is made again as its token had expired.
func (u *upload) Seek(offset int64, whence int) (int64, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if offset != 0 || whence != io.SeekStart {
		return 0, errors.New("an upload begins at its beginning")
	}
	u.begin()
	return u.content.Seek(0, io.SeekStart)
}

// sum returns a digest of what was sent, in hexadecimal digits; "": of another algorithm.
func (u *upload) sum(algorithm string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	sum := u.sums[algorithm]
	if sum == nil {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}
