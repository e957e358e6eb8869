package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bee-hpc/bee/internal/image/debian"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// packageLayer writes the packages of a build, installed, to a tar file, from what an
// earlier build kept where nothing of them has changed since. It lies among the blobs,
// and no image lists it: `bee image prune` removes it.
func (b *build) packageLayer(ctx context.Context, d debian.Options, epoch int64, to string) error {
	raw, err := json.Marshal(debian.Packages(b.spec))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "packages %s %s %q %d", raw, d.Arch, d.Sources, epoch))
	key := hex.EncodeToString(sum[:])
	kept := b.cache.dir.path("blobs", key)
	lock, err := b.cache.dir.lock(ctx, "packages-"+key, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close()
	if unpackLayer(kept, to) == nil {
		return nil
	}
	b.o.Progress("installing the packages, for this and later builds", 0, 0)
	w, err := b.cache.dir.newWorkplace()
	if err != nil {
		return err
	}
	defer w.end()
	err = runDebian(ctx, debian.Packages(b.spec), d, epoch, b.o, func(r io.ReadCloser) error { return keepLayer(w.path("layer"), r) })
	if err != nil {
		return err
	}
	if err := os.Rename(w.path("layer"), kept); err != nil {
		return err
	}
	return unpackLayer(kept, to)
}

// keepLayer compresses a tar stream into a file, without what is in /dev: an ordinary
// user may not make it again, and mmdebstrap does.
func keepLayer(file string, r io.Reader) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	if err != nil {
		return err
	}
	out, in := tar.NewWriter(z), tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if strings.HasPrefix(h.Name, "./dev/") && h.Name != "./dev/" {
			continue
		}
		h.Format = tar.FormatPAX
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, r); err != nil { // its writer waits
		return err
	}
	return errors.Join(out.Close(), z.Close(), f.Sync())
}

// unpackLayer writes the tar file that keepLayer compressed.
func unpackLayer(kept, to string) error {
	f, err := os.Open(kept)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		return err
	}
	defer z.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, z)
	return errors.Join(err, out.Close())
}
