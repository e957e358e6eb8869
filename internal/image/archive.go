package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"
)

// Archive gives a docker-archive of the image, for runtimes that load one, and
// the tag in it. It is made when first asked for, and kept.
func (s *Store) Archive(ctx context.Context, id string) (path, tag string, err error) {
	r, err := s.read(id)
	if err != nil {
		return "", "", err
	}
	tag = "bee.local/image:" + hexOf(id)[:16]
	path = s.path("trees", id) + ".docker.tar"
	if _, err := os.Stat(path); err == nil {
		return path, tag, nil
	}
	lock, err := s.lock(ctx, id, unix.LOCK_EX)
	if err != nil {
		return "", "", err
	}
	defer lock.Close()
	if _, err := os.Stat(path); err == nil {
		return path, tag, nil
	}
	if !s.Has(id) {
		return "", "", notHere(id)
	}
	image, err := s.oneLayer(r)
	if err != nil {
		return "", "", err
	}
	parsed, err := name.NewTag(tag)
	if err != nil {
		return "", "", err
	}
	temp := filepath.Join(s.dir, "tmp", filepath.Base(path))
	defer os.Remove(temp)
	if err := tarball.WriteToFile(temp, parsed, image); err != nil {
		return "", "", fmt.Errorf("make archive of %s: %w", r.Ref, err)
	}
	return path, tag, os.Rename(temp, path)
}

// oneLayer is the image with its tree as its only layer.
func (s *Store) oneLayer(r record) (v1.Image, error) {
	root := s.path("trees", r.ID)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		rd, wr := io.Pipe()
		go func() { wr.CloseWithError(tarTree(wr, root)) }()
		return rd, nil
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = r.OS, r.Arch
	c := r.Config
	file.Config = v1.Config{Env: c.Env, Entrypoint: c.Entrypoint, Cmd: c.Cmd, WorkingDir: c.WorkingDir, User: c.User, Labels: c.Labels, StopSignal: c.StopSignal}
	return mutate.ConfigFile(image, file)
}

// tarTree writes a tree as a tar stream, in order of names, owned by root as
// images are, with hard links kept.
func tarTree(w io.Writer, root string) error {
	t := tar.NewWriter(w)
	links := map[[2]uint64]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSocket != 0 {
			return nil
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(p); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		h.Name, h.Uid, h.Gid, h.Uname, h.Gname = rel, 0, 0, "", ""
		if d.IsDir() {
			h.Name += "/"
		}
		st, _ := info.Sys().(*syscall.Stat_t)
		if info.Mode().IsRegular() && st != nil && st.Nlink > 1 {
			key := [2]uint64{st.Dev, st.Ino}
			if first, ok := links[key]; ok {
				h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
				return t.WriteHeader(h)
			}
			links[key] = rel
		}
		if err := t.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(t, f)
		return err
	})
	return errors.Join(err, t.Close())
}
