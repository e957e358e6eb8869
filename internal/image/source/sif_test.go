package source

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/sylabs/sif/v2/pkg/sif"
)

// sifTree makes a root file system as Apptainer has them.
func sifTree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	for name, text := range map[string]string{
		"bin/app": "#!/bin/sh\n", "etc/empty": "", "data/large": strings.Repeat("0123456789abcdef", 40_000), "data/small": "x",
		".singularity.d/runscript":                     "#!/bin/sh\nexec /bin/app\n",
		".singularity.d/env/10-docker2singularity.sh":  "#!/bin/sh\nexport PATH=\"/opt/bin:/bin\"\nexport LANG=\"${LANG:-\"C.UTF-8\"}\"\nexport NOW=$(date)\nexport X='a b'\n",
		".singularity.d/env/90-environment.sh":         "export OMP_NUM_THREADS=4\n",
		"a dir/with: odd 'names'/\u00e4\n":             "odd",
		strings.Repeat("deep/", 60) + "file":           "deep",
		"many/" + strings.Repeat("n", 200) + "/target": "t",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(filepath.Join(dir, "bin/app"), 0o755), os.Symlink("app", filepath.Join(dir, "bin/link")), os.Link(filepath.Join(dir, "data/large"), filepath.Join(dir, "data/second"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// makeSIF packs a tree by the real mksquashfs into a SIF file.
func makeSIF(t *testing.T, dir string, kind sif.FSType, options ...string) string {
	t.Helper()
	testkit.RequireTool(t, "mksquashfs")
	part := filepath.Join(t.TempDir(), "part")
	out, err := exec.Command("mksquashfs", append([]string{dir, part, "-no-progress", "-quiet"}, options...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw, err := os.ReadFile(part)
	if err != nil {
		t.Fatal(err)
	}
	other, err := sif.NewDescriptorInput(sif.DataDeffile, strings.NewReader("Bootstrap: docker\n"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := sif.NewDescriptorInput(sif.DataPartition, bytes.NewReader(raw), sif.OptPartitionMetadata(kind, sif.PartPrimSys, "arm64"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "app.sif")
	c, err := sif.CreateContainerAtPath(file, sif.OptCreateWithDescriptors(other, root))
	if err == nil {
		err = c.UnloadContainer()
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// readSIF reads a SIF file, of whose layer at most most bytes are kept.
func readSIF(t *testing.T, file string, most int64) (*Image, error) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	return SIF(t.Context(), f, func(r io.Reader) (*os.File, error) {
		out, err := os.Create(filepath.Join(t.TempDir(), "layer"))
		if err != nil {
			return nil, err
		}
		if n, err := io.Copy(out, io.LimitReader(r, most)); err != nil || n == most {
			out.Close()
			return nil, errors.Join(err, errors.New("too much"))
		}
		return out, nil
	})
}

// TestSIF reads what mksquashfs packed with each compression: the same layer, with all
// files, links and modes, and what the image says of its variables and command.
func TestSIF(t *testing.T) {
	dir := sifTree(t)
	ids := map[string]bool{}
	for _, options := range [][]string{{"-comp", "gzip"}, {"-comp", "xz"}, {"-comp", "zstd"}, {"-comp", "lz4"}, {"-comp", "lzo"}, {"-noI", "-noD", "-noF"}, {"-no-fragments"}, {"-b", "4096"}} {
		i, err := readSIF(t, makeSIF(t, dir, sif.FsSquash, options...), 64<<20)
		if err != nil {
			t.Errorf("%v: %v", options, err)
			continue
		}
		defer i.Close()
		ids[i.ID()] = true
		if c := i.File.Config; i.File.Architecture != "arm64" || strings.Join(c.Cmd, " ") != "/.singularity.d/runscript" || strings.Join(c.Env, "|") != "PATH=/opt/bin:/bin|LANG=C.UTF-8|X=a b|OMP_NUM_THREADS=4" {
			t.Errorf("%v: %+v", options, i.File)
		}
		if options[0] == "-comp" && options[1] == "lzo" {
			sameTree(t, dir, i)
		}
	}
	if len(ids) != 1 {
		t.Errorf("one tree became several images: %v", ids)
	}
}

// sameTree unpacks a layer by tar, and compares it.
func sameTree(t *testing.T, dir string, i *Image) {
	t.Helper()
	r, err := i.Layers[0].Open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	to := t.TempDir()
	c := exec.Command("tar", "-x", "-C", to)
	c.Stdin = r
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("diff", "-r", "--no-dereference", dir, to).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	one, err1 := os.Stat(filepath.Join(to, "data/large"))
	two, err2 := os.Stat(filepath.Join(to, "data/second"))
	if err := errors.Join(err1, err2); err != nil || !os.SameFile(one, two) {
		t.Errorf("a hard link was copied: %v", err)
	}
	if info, err := os.Stat(filepath.Join(to, "bin/app")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestSIFsThatCannotBeRead(t *testing.T) {
	dir := sifTree(t)
	good := makeSIF(t, dir, sif.FsSquash)
	raw, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(change func(b []byte) []byte) string {
		file := filepath.Join(t.TempDir(), "changed.sif")
		if err := os.WriteFile(file, change(bytes.Clone(raw)), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	root := bytes.Index(raw, []byte("hsqs"))
	put := func(at int, v uint32) string {
		return changed(func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[at:], v)
			return b
		})
	}
	for name, file := range map[string]string{
		"empty":             changed(func([]byte) []byte { return nil }),
		"no SIF":            changed(func(b []byte) []byte { return append([]byte("x"), b...) }),
		"cut in its head":   changed(func(b []byte) []byte { return b[:90] }),
		"cut in its list":   changed(func(b []byte) []byte { return b[:5000] }),
		"cut in its files":  changed(func(b []byte) []byte { return b[:len(b)-8<<10] }),
		"billions of parts": put(sifCountAt, 1<<31),
		"negative parts":    put(sifCountAt+4, 1<<31),
		"billions of files": put(root+4, 1<<31),
		"no file":           put(root+4, 0),

		"fragments":           put(root+16, 1<<31),
		"blocks of gigabytes": put(root+12, 1<<30),
		"no SquashFS":         put(root, 0),
		"ext3":                makeSIF(t, dir, sif.FsExt3),
		"lzma":                makeSIF(t, dir, sif.FsSquash, "-comp", "lzma"),
		"encrypted":           makeSIF(t, dir, sif.FsEncryptedSquashfs),
	} {
		if i, err := readSIF(t, file, 64<<20); !core.IsKind(err, core.Invalid) && !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
			t.Errorf("%s: %v, %v", name, i, err)
		}
	}
	if _, err := readSIF(t, good, 100_000); err == nil {
		t.Error("a layer beyond the limit is kept")
	}
}

// TestDamagedSIFs: whatever is changed in one, reading ends, and is an error or an archive.
func TestDamagedSIFs(t *testing.T) {
	good := makeSIF(t, sifTree(t), sif.FsSquash)
	raw, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	root := bytes.Index(raw, []byte("hsqs"))
	random := rand.New(rand.NewPCG(1, 2))
	file := filepath.Join(t.TempDir(), "damaged.sif")
	for n := range 300 {
		b := bytes.Clone(raw)
		for range 1 + random.IntN(4) {
			at := random.IntN(len(b))
			if n%2 == 0 { // the tables at the end, and the head
				at = []int{root + random.IntN(96), len(b) - 1 - random.IntN(min(len(b), 4096)), random.IntN(root)}[random.IntN(3)]
			}
			b[at] ^= byte(1 << random.IntN(8))
		}
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		i, err := readSIF(t, file, 64<<20)
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("change %d took %s", n, took)
		}
		if err != nil {
			continue
		}
		r, err := i.Layers[0].Open(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for archive := tar.NewReader(r); ; {
			h, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || strings.HasPrefix(h.Name, "/") || strings.Contains("/"+h.Name+"/", "/../") {
				t.Fatalf("change %d: %v, %+v", n, err, h)
			}
		}
		i.Close()
	}
}
