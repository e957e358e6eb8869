package aws

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/cloud"
	"golang.org/x/sync/errgroup"
)

// blocks is the service that writes snapshots block by block (the EBS direct APIs).
const blocks = "ebs"

const (
	// blockSize is that of all snapshots.
	blockSize = 512 << 10
	// blockTime bounds one try to send a block.
	blockTime = 5 * time.Minute
	// senders is how many blocks are on their way at a time.
	senders = 8
	// unknownTime bounds how long the service may not know a snapshot that was just made.
	unknownTime = 2 * time.Minute
	// checksumKind is the algorithm of all checksums.
	checksumKind = "SHA256"
)

// blockWriter writes a snapshot.
type blockWriter struct{ a *account }

// call makes a call with headers and a body, and decodes its answer where into is not nil.
func (w blockWriter) call(ctx context.Context, action, method, path string, header map[string]string, body string, into any) error {
	return w.a.send(ctx, func(s *loaded) request {
		h := http.Header{}
		for name, value := range header {
			h.Set(name, value)
		}
		return request{
			service: blocks, region: s.config.Region, endpoint: endpointOf(ctx, s.config, "EBS", blocks, s.config.Region), action: action,
			method: method, path: path, header: h, body: body, limit: blockTime,
		}
	}, func(answer []byte) error {
		if into == nil {
			return nil
		}
		return json.Unmarshal(answer, into)
	})
}

// start makes a snapshot without any block, and returns its id. Tags of the call are its own from the beginning.
func (w blockWriter) start(ctx context.Context, size int64, description string, tags map[string]string) (string, error) {
	type tagItem struct{ Key, Value string }
	q := struct {
		VolumeSize               int64
		Description, ClientToken string
		Tags                     []tagItem
	}{VolumeSize: gibibytes(size), Description: description, ClientToken: strings.ToLower(rand.Text())}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		q.Tags = append(q.Tags, tagItem{key, tags[key]})
	}
	body, err := json.Marshal(q)
	if err != nil {
		return "", err
	}
	var made struct {
		SnapshotID string `json:"SnapshotId"`
		BlockSize  int64
	}
	if err := w.call(ctx, "StartSnapshot", http.MethodPost, "/snapshots", map[string]string{"Content-Type": "application/json"}, string(body), &made); err != nil {
		return "", err
	}
	if !snapshotForm.MatchString(made.SnapshotID) {
		return "", fmt.Errorf("EBS answers with the id %q, which is none", core.Printable(made.SnapshotID, 80))
	}
	if made.BlockSize != blockSize {
		return made.SnapshotID, fmt.Errorf("EBS wants blocks of %d bytes, expected %d", made.BlockSize, blockSize)
	}
	return made.SnapshotID, nil
}

// gibibytes returns a size in GiB, rounded up.
func gibibytes(size int64) int64 { return (size + 1<<30 - 1) >> 30 }

// put sends a block. A snapshot that was just made may not be known yet.
func (w blockWriter) put(ctx context.Context, id string, index int64, data []byte, sum [sha256.Size]byte) error {
	header := map[string]string{
		"Content-Type": "application/octet-stream", "X-Amz-Data-Length": strconv.Itoa(len(data)),
		"X-Amz-Checksum": base64.StdEncoding.EncodeToString(sum[:]), "X-Amz-Checksum-Algorithm": checksumKind,
	}
	pause := fsutil.Backoff{First: 200 * time.Millisecond, Longest: 10 * time.Second}
	for begun := time.Now(); ; {
		err := w.call(ctx, "PutSnapshotBlock", http.MethodPut, "/snapshots/"+id+"/blocks/"+strconv.FormatInt(index, 10), header, string(data), nil)
		if !isGone(err) || time.Since(begun) > unknownTime {
			return err
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

// written is what was sent of a disk.
type written struct {
	count int64
	// sums are the checksums of the blocks in their order.
	sums []byte
}

// write sends the blocks of a disk that are not empty. The digest of all of it has to be the disk's.
func (w blockWriter) write(ctx context.Context, id string, d driver.MachineDisk, report func(done, total int64)) (written, error) {
	var (
		out   written
		mu    sync.Mutex
		done  int64
		empty = make([]byte, blockSize)
		whole = sha256.New()
	)
	sent := func(n int64) {
		mu.Lock()
		defer mu.Unlock()
		done += n
		report(done, d.Size)
	}
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(senders)
	read := func() error {
		for at := int64(0); at < d.Size && sending.Err() == nil; at += blockSize {
			data, n := make([]byte, blockSize), min(blockSize, d.Size-at) // the end of the last one is empty
			if _, err := io.ReadFull(io.NewSectionReader(d.Content, at, n), data[:n]); err != nil {
				return fmt.Errorf("read the disk: %w", err)
			}
			whole.Write(data[:n])
			if bytes.Equal(data, empty) {
				sent(n)
				continue
			}
			sum := sha256.Sum256(data)
			out.count, out.sums = out.count+1, append(out.sums, sum[:]...)
			group.Go(func() error {
				return core.Caught(func() error {
					err := w.put(sending, id, at/blockSize, data, sum)
					if err == nil {
						sent(n)
					}
					return err
				})
			})
		}
		return nil
	}
	rerr := read()
	if err := errors.Join(rerr, group.Wait()); err != nil {
		return out, err
	}
	if "sha256:"+hex.EncodeToString(whole.Sum(nil)) != d.Digest {
		return out, cloud.WrongDigest(d)
	}
	return out, context.Cause(ctx)
}

// complete ends the writing. EBS compares the checksums of all blocks with those that it has.
func (w blockWriter) complete(ctx context.Context, id string, o written) error {
	sum := sha256.Sum256(o.sums)
	return w.call(ctx, "CompleteSnapshot", http.MethodPost, "/snapshots/completion/"+id, map[string]string{
		"X-Amz-Changedblockscount": strconv.FormatInt(o.count, 10), "X-Amz-Checksum": base64.StdEncoding.EncodeToString(sum[:]),
		"X-Amz-Checksum-Algorithm": checksumKind, "X-Amz-Checksum-Aggregation-Method": "LINEAR",
	}, "", nil)
}
