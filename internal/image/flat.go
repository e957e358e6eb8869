package image

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/bee-hpc/bee/internal/wire"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// ExportFlat writes the flattened image as one stream, for other hosts: zstd
// over the image's record and its tree.
func (s *Store) ExportFlat(ctx context.Context, id string, w io.Writer) error {
	r, err := s.read(id)
	if err != nil {
		return err
	}
	root, release, err := s.Tree(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	if err != nil {
		return err
	}
	r.Layers = nil // they do not travel
	if err := wire.WriteMessage(z, r); err != nil {
		return err
	}
	if err := filestream.Send(ctx, z, root, nil); err != nil {
		return fmt.Errorf("send image %s: %w", r.Ref, err)
	}
	return z.Close()
}

// ImportFlat takes in what ExportFlat wrote, unpacking while it comes. The
// stream's own checksum is verified before the image becomes visible.
func (s *Store) ImportFlat(ctx context.Context, from io.Reader) (core.Image, error) {
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(2))
	if err != nil {
		return core.Image{}, err
	}
	defer z.Close()
	var r record
	if err := wire.ReadMessage(z, &r); err != nil {
		return core.Image{}, fmt.Errorf("read image: %w", err)
	}
	if !validID(r.ID) {
		return core.Image{}, &core.Error{Kind: core.Invalid, Op: "read image", Object: r.ID, Err: fmt.Errorf("its id is no digest")}
	}
	lock, err := s.lock(ctx, r.ID, unix.LOCK_EX)
	if err != nil {
		return core.Image{}, err
	}
	defer lock.Close()
	if s.Has(r.ID) { // another node on the same cache was quicker; the sender may go on
		_, err := io.Copy(io.Discard, z)
		return r.Image, err
	}
	temp := filepath.Join(s.dir, "tmp", fmt.Sprintf("import-%s-%d", hexOf(r.ID), os.Getpid()))
	defer filestream.RemoveAll(temp) //nolint:errcheck // gone by rename when all went well
	if err := filestream.Receive(ctx, z, temp); err != nil {
		return core.Image{}, fmt.Errorf("receive image %s: %w", r.Ref, err)
	}
	r.Created = time.Now()
	if err := s.write(r); err != nil {
		return core.Image{}, err
	}
	return r.Image, s.publish(temp, r.ID)
}
