package source

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/bee-hpc/bee/internal/image/squashfs"
)

const longestText = 64 << 10 // of a script whose text is looked at

// write writes a SquashFS file system as the tar archive of a layer. A damaged one is an
// error, whatever a decompressor does with it.
func (s *sifFacts) write(part *io.SectionReader, w io.Writer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its file system is damaged: %v", p)
		}
	}()
	system, err := squashfs.Open(part, part.Size())
	if err != nil {
		return err
	}
	t := &layerWriter{facts: s, system: system, tar: tar.NewWriter(w)}
	if err := system.Walk(t.file); err != nil {
		return err
	}
	return t.tar.Close()
}

// layerWriter writes a tree into an archive.
type layerWriter struct {
	facts  *sifFacts
	system *squashfs.FS
	tar    *tar.Writer
}

func (t *layerWriter) file(f *squashfs.File) error {
	h := &tar.Header{Name: f.Path, Mode: int64(f.Mode.Perm()), Uid: int(f.UID), Gid: int(f.GID), ModTime: f.Modified, Format: tar.FormatPAX}
	switch {
	case f.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, f.Path+"/"
	case f.Mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname = tar.TypeSymlink, f.Target
	case !f.Mode.IsRegular(): // devices, pipes and sockets: containers have their own
		return nil
	case f.Link != "":
		h.Typeflag, h.Linkname = tar.TypeLink, f.Link
	default:
		h.Typeflag, h.Size = tar.TypeReg, f.Size
		return t.plain(h, f)
	}
	return t.tar.WriteHeader(h)
}

// plain writes a plain file.
func (t *layerWriter) plain(h *tar.Header, f *squashfs.File) error {
	if err := t.tar.WriteHeader(h); err != nil {
		return err
	}
	var head strings.Builder
	to := io.Writer(t.tar)
	if (h.Name == dockerEnv || h.Name == ownEnv) && h.Size <= longestText {
		to = io.MultiWriter(to, &head)
	}
	if h.Name == runScript {
		t.facts.command = []string{"/" + runScript}
	}
	err := t.system.Copy(to, f)
	t.facts.noteEnv(head.String())
	return err
}
