package source

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sylabs/sif/v2/pkg/sif"
)

// SIF reads an image file of Apptainer or Singularity: the SquashFS file system in it as the
// one layer. keep stores a stream in a file that can be read from any place, within the
// cache's limits. f is closed.
func SIF(_ context.Context, f *os.File, keep func(io.Reader) (*os.File, error)) (*Image, error) {
	defer f.Close()
	image, err := fromSIF(f, keep)
	if ours, is := errors.AsType[*core.Error](err); err != nil && !is {
		err = &core.Error{Kind: core.Invalid, Op: "read SIF file", Object: f.Name(), Err: err, Remedy: "Check that the file is complete, as by its size. `apptainer exec FILE true` tries it."}
	} else if is && ours.Object == "" {
		ours.Object = f.Name()
	}
	return image, err
}

func fromSIF(f *os.File, keep func(io.Reader) (*os.File, error)) (*Image, error) {
	part, arch, err := rootOf(f)
	if err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	facts := &sifFacts{}
	go func() { in.CloseWithError(facts.write(part, in)) }()
	sum := sha256.New()
	layer, err := keep(io.TeeReader(out, sum))
	out.CloseWithError(err) // which ends the writer, if that was not it
	if err != nil {
		return nil, err
	}
	info, err := layer.Stat()
	if err != nil {
		layer.Close()
		return nil, err
	}
	diff := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}
	i := &Image{close: layer.Close, File: &v1.ConfigFile{
		OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diff}},
		Config: v1.Config{Env: facts.env, Cmd: facts.command},
	}}
	if i.Config, err = json.Marshal(i.File); err == nil {
		i.Manifest, err = manifestOf(i.Config, i.File.RootFS.DiffIDs)
	}
	if err != nil {
		layer.Close()
		return nil, err
	}
	i.Layers = []Layer{{DiffID: diff.String(), Size: info.Size(), Open: func(_ context.Context, offset int64) (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(layer, offset, info.Size()-offset)), nil
	}}}
	return i, nil
}

// Where a SIF file has its magic word and the number of its descriptors, and how many
// there may be: more than any tool makes.
const (
	sifMagicAt      = 32
	sifCountAt      = 88
	mostDescriptors = 4096
)

// rootOf finds the root file system of a SIF file, and its architecture.
func rootOf(f *os.File) (*io.SectionReader, string, error) {
	var head [sifCountAt + 8]byte
	if _, err := f.ReadAt(head[:], 0); err != nil || !strings.HasPrefix(string(head[sifMagicAt:]), "SIF_MAGIC") {
		return nil, "", errors.New("it is no SIF file")
	}
	if n := binary.LittleEndian.Uint64(head[sifCountAt:]); n > mostDescriptors {
		return nil, "", fmt.Errorf("it names %d parts", n)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, "", err
	}
	c, err := sif.LoadContainer(f, sif.OptLoadWithCloseOnUnload(false))
	if err != nil {
		return nil, "", err
	}
	d, err := c.GetDescriptor(sif.WithPartitionType(sif.PartPrimSys))
	if err != nil {
		return nil, "", fmt.Errorf("it has no root file system: %w", err)
	}
	kind, _, arch, err := d.PartitionMetadata()
	switch {
	case err != nil:
		return nil, "", err
	case kind == sif.FsEncryptedSquashfs:
		return nil, "", &core.Error{Kind: core.Unsupported, Op: "read SIF file", Err: errors.New("its root file system is encrypted"), Remedy: "Build the SIF file without --encrypt, or name the image that it was made from."}
	case kind != sif.FsSquash:
		return nil, "", &core.Error{Kind: core.Unsupported, Op: "read SIF file", Err: fmt.Errorf("its root file system is %s", kind), Remedy: "`apptainer build NEW.sif FILE` makes one with SquashFS, or name the image that it was made from."}
	case d.Offset() < 0 || d.Size() < 0 || d.Offset() > info.Size() || d.Size() > info.Size()-d.Offset():
		return nil, "", errors.New("its root file system lies beyond its end")
	}
	return io.NewSectionReader(f, d.Offset(), d.Size()), arch, nil
}

// sifFacts are what a root file system of Apptainer's says of the image.
type sifFacts struct {
	env     []string
	command []string
}

// The files in which it does.
const (
	runScript = ".singularity.d/runscript"
	dockerEnv = ".singularity.d/env/10-docker2singularity.sh"
	ownEnv    = ".singularity.d/env/90-environment.sh"
)

var sifExport = regexp.MustCompile(`(?m)^\s*export\s+([A-Za-z_][A-Za-z0-9_]*)=(?:"\$\{[A-Za-z_][A-Za-z0-9_]*:-"?([^"$` + "`" + `\n]*)"?\}"|"([^"$` + "`" + `\n]*)"|'([^'\n]*)'|([^\s"'$` + "`" + `;&|]*))\s*$`)

// noteEnv takes the variables of one of its files whose values are plain.
func (s *sifFacts) noteEnv(text string) {
	for _, m := range sifExport.FindAllStringSubmatch(text, -1) {
		if len(s.env) < 1000 {
			s.env = append(s.env, m[1]+"="+m[2]+m[3]+m[4]+m[5])
		}
	}
}
