package source

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem"
	"github.com/diskfs/go-diskfs/filesystem/squashfs"
)

// Bounds of a SquashFS file system.
const (
	mostInodes  = 5_000_000
	deepestPath = 500
	longestText = 64 << 10 // of a script whose text is looked at
)

// Methods of compression, as SquashFS numbers them, that the library reads as mksquashfs
// writes them.
const (
	packedGzip = 1
	packedXZ   = 4
	packedZstd = 6
)

// partFile is a part of a file as a library wants it.
type partFile struct{ *io.SectionReader }

func (p partFile) Stat() (fs.FileInfo, error) { return partInfo{p.Size()}, nil }
func (p partFile) Close() error               { return nil }

type partInfo struct{ size int64 }

func (p partInfo) Name() string       { return "root" }
func (p partInfo) Size() int64        { return p.size }
func (p partInfo) Mode() fs.FileMode  { return 0o400 }
func (p partInfo) ModTime() time.Time { return time.Time{} }
func (p partInfo) IsDir() bool        { return false }
func (p partInfo) Sys() any           { return nil }

// write writes a SquashFS file system as the tar archive of a layer. A damaged one is an
// error, whatever the library does with it.
func (s *sifFacts) write(part *io.SectionReader, w io.Writer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its file system is damaged: %v", p)
		}
	}()
	inodes, err := checkSuperblock(part)
	if err != nil {
		return err
	}
	system, err := squashfs.Read(file.New(partFile{part}, true), part.Size(), 0, 0)
	if err != nil {
		return err
	}
	system.SetCacheSize(32 << 20)
	t := &layerWriter{facts: s, system: system, tar: tar.NewWriter(w), left: int(inodes) + 1, first: map[uint32]string{}}
	if err := t.directory(".", 0); err != nil {
		return err
	}
	return t.tar.Close()
}

// checkSuperblock checks counts that decide how much memory a reader takes.
func checkSuperblock(part io.ReaderAt) (inodes uint32, err error) {
	var b [96]byte
	if _, err := part.ReadAt(b[:], 0); err != nil {
		return 0, fmt.Errorf("read its file system: %w", err)
	}
	le := binary.LittleEndian
	inodes = le.Uint32(b[4:])
	block, fragments, packing := le.Uint32(b[12:]), le.Uint32(b[16:]), le.Uint16(b[20:])
	switch {
	case string(b[:4]) != "hsqs":
		return 0, errors.New("its file system is no SquashFS")
	case inodes == 0 || inodes > mostInodes || fragments > inodes:
		return 0, fmt.Errorf("its file system names %d files and %d fragments", inodes, fragments)
	case block < 4<<10 || block > 1<<20 || block&(block-1) != 0:
		return 0, fmt.Errorf("its file system has blocks of %d bytes", block)
	case packing != packedGzip && packing != packedXZ && packing != packedZstd:
		return 0, &core.Error{
			Kind: core.Unsupported, Op: "read SIF file", Err: fmt.Errorf("its file system is compressed by method %d of SquashFS, and gzip, xz and zstd can be read", packing),
			Remedy: "`apptainer build NEW.sif FILE` makes one with gzip.",
		}
	}
	return inodes, nil
}

// layerWriter writes a tree into an archive.
type layerWriter struct {
	facts  *sifFacts
	system *squashfs.FileSystem
	tar    *tar.Writer
	left   int               // how many more files there may be
	first  map[uint32]string // names of plain files by inode
}

func (t *layerWriter) directory(name string, depth int) error {
	if depth > deepestPath {
		return errors.New("its directories nest too deep")
	}
	entries, err := t.system.ReadDir(name)
	if err != nil {
		return fmt.Errorf("read directory %q: %w", name, err)
	}
	for _, e := range entries {
		n := e.Name()
		if n == "" || n == "." || n == ".." || strings.ContainsAny(n, "/\x00") {
			return fmt.Errorf("a file in %q is called %q", name, n)
		}
		if t.left--; t.left < 0 {
			return errors.New("it has more files than its file system names")
		}
		at := path.Join(name, n)
		if err := t.entry(at, e); err != nil {
			return fmt.Errorf("read %q: %w", at, err)
		}
		if e.IsDir() {
			if err := t.directory(at, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *layerWriter) entry(at string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	meta, is := info.Sys().(*squashfs.StatT)
	if !is {
		return errors.New("it has no owner")
	}
	h := &tar.Header{Name: at, Mode: int64(info.Mode().Perm()), Uid: int(meta.UID), Gid: int(meta.GID), ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch mode := info.Mode(); {
	case mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, at+"/"
	case mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname = tar.TypeSymlink, meta.LinkTarget
	case !strings.HasSuffix(meta.InodeType, "-file"): // devices, pipes and sockets: containers have their own
		return nil
	default:
		if first, is := t.first[meta.Inode]; is {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			break
		}
		t.first[meta.Inode] = at
		return t.plain(h, info)
	}
	return t.tar.WriteHeader(h)
}

// plain writes a plain file.
func (t *layerWriter) plain(h *tar.Header, info fs.FileInfo) error {
	opener, is := info.(interface {
		Open() (filesystem.File, error)
	})
	if !is {
		return errors.New("it cannot be opened")
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if h.Size < 0 {
		return fmt.Errorf("it has %d bytes", h.Size)
	}
	f, err := opener.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.tar.WriteHeader(h); err != nil {
		return err
	}
	var head strings.Builder
	to := io.Writer(t.tar)
	seen := h.Name == dockerEnv || h.Name == ownEnv
	if seen && h.Size <= longestText {
		to = io.MultiWriter(to, &head)
	}
	if h.Name == runScript {
		t.facts.command = []string{"/" + runScript}
	}
	n, err := io.Copy(to, io.LimitReader(f, h.Size))
	if err == nil && n != h.Size {
		err = io.ErrUnexpectedEOF
	}
	t.facts.noteEnv(head.String())
	return err
}
