package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func TestTransfersAreTakenUpAgain(t *testing.T) {
	f, addr := newFaulty(t)
	ref := addr + "/big:1"
	write(t, ref, imageOf(t, host, map[string][]byte{"a": noise(1, 900_000)}, map[string][]byte{"b": noise(2, 500_000)}))
	for _, c := range []struct {
		name   string
		before func(w http.ResponseWriter, r *http.Request) bool
		ranges bool
	}{
		{"no fault", nil, false},
		{"cut again and again", cut(f, 200_000, true), true},
		{"cut, and no ranges", cut(f, 300_000, false), true},
		{"busy at first", busy(3), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.set(c.before)
			s := store(t)
			i, err := s.Pull(t.Context(), ref, PullOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for file, want := range map[string][]byte{"a": noise(1, 900_000), "b": noise(2, 500_000)} {
				if got, err := os.ReadFile(filepath.Join(s.dir.path("trees", i.ID), file)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s is not what it was: %v", file, err)
				}
			}
			if took := slices.ContainsFunc(f.gets, func(r string) bool { return r != "" }); took != c.ranges {
				t.Errorf("ranges asked for: %q", f.gets)
			}
		})
	}
}

// busy refuses the first requests of blobs.
func busy(times int) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") || times == 0 {
			return false
		}
		times--
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
}

func TestDamagedLayerIsRefused(t *testing.T) {
	f, addr := newFaulty(t)
	ref := addr + "/big:1"
	write(t, ref, imageOf(t, host, map[string][]byte{"a": noise(1, 300_000)}))
	f.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		all := httptest.NewRecorder()
		f.Handler.ServeHTTP(all, r)
		body := all.Body.Bytes()
		if len(body) > 100_000 {
			body[len(body)/2] ^= 1
		}
		w.Write(body)
		return true
	})
	s := store(t)
	_, err := s.Pull(t.Context(), ref, PullOptions{})
	if err == nil || !strings.Contains(err.Error(), "digest") {
		t.Errorf("got %v", err)
	}
	for _, kind := range []string{"trees", "images", "tmp", "partial"} {
		if left, _ := os.ReadDir(filepath.Join(s.Dir(), kind)); len(left) > 0 {
			t.Errorf("left in %s: %v", kind, left)
		}
	}
	f.set(nil)
	if _, err := s.Pull(t.Context(), ref, PullOptions{}); err != nil {
		t.Errorf("once the registry is well again: %v", err)
	}
}

func TestDamagedPartOfAnEarlierPullIsNoObstacle(t *testing.T) {
	_, addr := newFaulty(t)
	ref := addr + "/big:1"
	image := imageOf(t, host, map[string][]byte{"a": noise(1, 300_000)})
	write(t, ref, image)
	s := store(t)
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.dir.path("partial", digest.String()), noise(7, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pull(t.Context(), ref, PullOptions{}); err != nil {
		t.Error(err)
	}
}

func TestOneLayerOfManyImagesComesOnce(t *testing.T) {
	f, addr := newFaulty(t)
	base := map[string][]byte{"a": noise(1, 200_000)}
	write(t, addr+"/x:1", imageOf(t, host, base, map[string][]byte{"b": []byte("x")}))
	write(t, addr+"/y:1", imageOf(t, host, base, base, map[string][]byte{"b": []byte("y")}))
	s := store(t)
	f.set(nil)
	for _, ref := range []string{"/x:1", "/y:1"} {
		if _, err := s.Pull(t.Context(), addr+ref, PullOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.gets) != 5 { // base, two tops, two configurations
		t.Errorf("%d transfers: %q", len(f.gets), f.gets)
	}
	x, err := s.Get(addr + "/x:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(s.Kept(x.ID), "something"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (Remover{Cache: s}).Remove(x.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Kept(x.ID)); err == nil {
		t.Error("what was kept with an image is still there")
	}
	y, err := s.Get(addr + "/y:1")
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := s.read(y.ID); len(r.Layers) != 5 {
		t.Errorf("layers: %v", r.Layers)
	} else if _, err := (content{s.dir, r}).original(); err != nil {
		t.Errorf("removing one image took layers of the other: %v", err)
	}
}

// A layer that was broken when it was pushed has the digest that it should have.
func TestBrokenLayerIsTheImagesFault(t *testing.T) {
	_, addr := newFaulty(t)
	layers, err := imageOf(t, host, map[string][]byte{"a": noise(1, 200_000)}).Layers()
	if err != nil {
		t.Fatal(err)
	}
	r, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	i, err := mutate.AppendLayers(imageOf(t, host), static.NewLayer(raw[:len(raw)/2], types.DockerLayer))
	if err != nil {
		t.Fatal(err)
	}
	write(t, addr+"/x:1", i)
	if _, err := store(t).Pull(t.Context(), addr+"/x:1", PullOptions{}); !core.IsKind(err, core.Invalid) || !strings.Contains(core.Remedy(err), "damaged") {
		t.Errorf("got %v, of kind %v; remedy %q", err, core.KindOf(err), core.Remedy(err))
	}
}

// TestDamagedLayerOfTheCacheComesAgain: power that fails leaves files short, or
// without their content.
func TestDamagedLayerOfTheCacheComesAgain(t *testing.T) {
	_, addr := newFaulty(t)
	base := map[string][]byte{"a": noise(1, 200_000)}
	x := imageOf(t, host, base)
	write(t, addr+"/x:1", x)
	write(t, addr+"/y:1", imageOf(t, host, base, map[string][]byte{"b": []byte("y")}))
	layers, err := x.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"short":   func(raw []byte) []byte { return raw[:len(raw)/2] },
		"flipped": func(raw []byte) []byte { return flip(raw, len(raw)/2) },
		"zeros":   func(raw []byte) []byte { return make([]byte, len(raw)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := store(t)
			if _, err := s.Pull(t.Context(), addr+"/x:1", PullOptions{}); err != nil {
				t.Fatal(err)
			}
			file := s.dir.path("blobs", digest.String())
			sound, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, damage(slices.Clone(sound)), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Pull(t.Context(), addr+"/y:1", PullOptions{}); err != nil {
				t.Fatal(err)
			}
			if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, sound) {
				t.Errorf("the layer is as damaged as it was: %v", err)
			}
		})
	}
}

// ofTwo writes an image for two platforms to a registry.
func ofTwo(t *testing.T, ref string, amd64, arm v1.Platform) {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: imageOf(t, arm, map[string][]byte{"arch": []byte("arm64")}), Descriptor: v1.Descriptor{Platform: &arm}},
		mutate.IndexAddendum{Add: imageOf(t, amd64, map[string][]byte{"arch": []byte("amd64")}), Descriptor: v1.Descriptor{Platform: &amd64}})
	if err := remote.WriteIndex(parsed, index); err != nil {
		t.Fatal(err)
	}
}

func TestPlatforms(t *testing.T) {
	_, addr := newFaulty(t)
	ref := addr + "/multi:1"
	amd64, arm := v1.Platform{OS: "linux", Architecture: "amd64"}, v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}
	ofTwo(t, ref, amd64, arm)
	s := store(t)
	for _, arch := range []string{"amd64", "arm64"} {
		for range 2 { // the second time from the cache
			i, err := s.Pull(t.Context(), ref, PullOptions{Platform: "linux/" + arch})
			if err != nil || i.Arch != arch {
				t.Fatalf("%s: got %s, %v", arch, i.Arch, err)
			}
			if got, _ := os.ReadFile(filepath.Join(s.dir.path("trees", i.ID), "arch")); string(got) != arch {
				t.Errorf("%s: its tree is that of %s", arch, got)
			}
		}
	}
	_, err := s.Pull(t.Context(), ref, PullOptions{Platform: "linux/riscv64"})
	if !core.IsKind(err, core.NotFound) || !strings.Contains(core.Remedy(err), "linux/arm64") {
		t.Errorf("got %v, remedy %q", err, core.Remedy(err))
	}
	for _, c := range []struct {
		have  v1.Platform
		want  string
		taken bool
	}{
		{amd64, "linux/amd64", true},
		{amd64, "linux/arm64", false},
		{v1.Platform{OS: "windows", Architecture: "amd64"}, "linux/amd64", false},
		{arm, "linux/arm64", true},
		{v1.Platform{OS: "linux", Architecture: "arm64"}, "linux/arm64/v8", true},
		{v1.Platform{OS: "linux", Architecture: "arm"}, "linux/arm/v7", true},
		{v1.Platform{OS: "linux", Architecture: "arm", Variant: "v6"}, "linux/arm", true},
		{v1.Platform{OS: "linux", Architecture: "arm", Variant: "v6"}, "linux/arm/v7", true},
		{v1.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}, "linux/arm/v6", false},
		{v1.Platform{OS: "linux", Architecture: "amd64", Variant: "v3"}, "linux/amd64/v2", false},
		{v1.Platform{OS: "linux", Architecture: "x86_64"}, "linux/amd64", true},
		{v1.Platform{}, "linux/arm64", true},
	} {
		t.Run(c.have.String()+" as "+c.want, func(t *testing.T) {
			ref := addr + "/single:1"
			write(t, ref, imageOf(t, c.have, map[string][]byte{"arch": []byte(c.have.String())}))
			_, err := s.Pull(t.Context(), ref, PullOptions{Platform: c.want, Policy: "always"})
			if c.taken && err != nil || !c.taken && (!core.IsKind(err, core.NotFound) || !strings.Contains(core.Remedy(err), c.have.String())) {
				t.Errorf("got %v, remedy %q", err, core.Remedy(err))
			}
		})
	}
}

// TestOtherPlatformInTheCache is not taken for the one that is asked for.
func TestOtherPlatformInTheCache(t *testing.T) {
	_, addr := newFaulty(t)
	ref := addr + "/multi:1"
	ofTwo(t, ref, v1.Platform{OS: "linux", Architecture: "amd64"}, v1.Platform{OS: "linux", Architecture: "arm64"})
	pull := func(t *testing.T, s *Store, arch, policy string) core.Image {
		t.Helper()
		i, err := s.Pull(t.Context(), ref, PullOptions{Platform: "linux/" + arch, Policy: policy})
		if err != nil || i.Arch != arch {
			t.Fatalf("for %s: %+v, %v", arch, i, err)
		}
		return i
	}
	for _, order := range [][2]string{{"amd64", "arm64"}, {"arm64", "amd64"}} {
		first, second := order[0], order[1]
		t.Run(first+" is there", func(t *testing.T) {
			s := store(t)
			i := pull(t, s, first, "")
			_, err := s.Pull(t.Context(), ref, PullOptions{Platform: "linux/" + second, Policy: "never"})
			if !core.IsKind(err, core.NotFound) || !strings.Contains(err.Error(), "for linux/"+second) {
				t.Errorf("the other may not be fetched: %v", err)
			}
			if i, err := s.Resolve(t.Context(), &spec.Job{Image: ref}, second, "missing", nil); err != nil || i.Arch != second {
				t.Errorf("a job's, on a host of the other: %+v, %v", i, err)
			}
			pull(t, s, first, "never")
			pull(t, s, second, "never")
			if _, err := s.Get(ref); !core.IsKind(err, core.Invalid) || !strings.Contains(core.Remedy(err), "id") {
				t.Errorf("both are called so: %v (%s)", err, core.Remedy(err))
			}
			// Caches are kept over versions, and an earlier one remembered what it was
			// given as what it had asked for.
			l, err := locator{s.limits}.locate(t.Context(), ref)
			if err == nil {
				err = s.refs.set(l.key, "linux/"+second, ref, i.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
			pull(t, s, second, "")
			pull(t, s, second, "never")
		})
	}
}

func TestBombIsRefused(t *testing.T) {
	_, addr := newFaulty(t)
	ref := addr + "/bomb:1"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	sum := sha256.New()
	out := io.MultiWriter(z, sum)
	w := tar.NewWriter(out)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "ones", Mode: 0o644, Size: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, ones{}, 64<<20); err != nil {
		t.Fatal(err)
	}
	w.Close()
	z.Close()
	i, err := mutate.AppendLayers(empty.Image, static.NewLayer(packed.Bytes(), types.DockerLayer))
	if err != nil {
		t.Fatal(err)
	}
	file, _ := i.ConfigFile()
	file = file.DeepCopy()
	file.RootFS.DiffIDs = []v1.Hash{{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sum.Sum(nil))}}
	file.OS, file.Architecture = host.OS, host.Architecture
	if i, err = mutate.ConfigFile(i, file); err != nil {
		t.Fatal(err)
	}
	write(t, ref, i)
	for _, c := range []struct {
		name  string
		limit func(s *Store)
		fails bool
	}{
		{"ratio", func(s *Store) { s.limits.RatioFrom, s.limits.Ratio = 16<<20, 100 }, true},
		{"bytes", func(s *Store) { s.limits.Bytes = 10 << 20 }, true},
		{"none", func(*Store) {}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := store(t)
			c.limit(s)
			i, err := s.Pull(t.Context(), ref, PullOptions{})
			if c.fails {
				if !core.IsKind(err, core.Invalid) {
					t.Errorf("got %v", err)
				}
				testkit.Wording(t, "error", testkit.ErrorText(err), ref, "IMAGE")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(filepath.Join(s.dir.path("trees", i.ID), "ones")); err != nil || info.Size() != 64<<20 {
				t.Errorf("got %v, %v", info, err)
			}
		})
	}
}

// TestArchiveThatIsABomb: what is decompressed on the way to the cache has the
// limits of what comes into it.
func TestArchiveThatIsABomb(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bomb.tar.gz")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	if _, err := io.CopyN(z, ones{}, 64<<20); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		limit   func(s *Store)
		remedy  string
		kind    core.Kind
		varying bool // the message has what is free
	}{
		{"ratio", func(s *Store) { s.limits.RatioFrom, s.limits.Ratio = 16<<20, 100 }, "hostile", core.Invalid, false},
		{"bytes", func(s *Store) { s.limits.Bytes = 10 << 20 }, "hostile", core.Invalid, false},
		{"room to spare", func(s *Store) { s.limits.Spare = 1 << 60 }, "TMPDIR", core.Transient, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := store(t)
			c.limit(s)
			_, err := s.Pull(t.Context(), "docker-archive:"+file, PullOptions{})
			if !core.IsKind(err, c.kind) || !strings.Contains(core.Remedy(err), c.remedy) {
				t.Errorf("got %v, of kind %v; remedy %q", err, core.KindOf(err), core.Remedy(err))
			}
			if !c.varying {
				testkit.Wording(t, "error", testkit.ErrorText(err), file, "FILE")
			}
		})
	}
}

// The errno of a file, too, says of itself that it is one of the network.
func TestPullErrorsNameTheirRemedy(t *testing.T) {
	file := func(err error) error { return fmt.Errorf("read: %w", &fs.PathError{Op: "write", Path: "/x", Err: err}) }
	for _, c := range []struct {
		err  error
		kind core.Kind
	}{
		{file(syscall.ENOSPC), core.Transient},
		{file(syscall.ENOENT), core.NotFound},
		{file(syscall.EACCES), core.Permanent},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, core.Transient},
	} {
		err := pullError("x:1", c.err)
		if !core.IsKind(err, c.kind) || (core.Remedy(err) == "") != (c.kind == core.Permanent) {
			t.Errorf("%v: kind %v, remedy %q", c.err, core.KindOf(err), core.Remedy(err))
		}
		testkit.Wording(t, c.err.Error(), testkit.ErrorText(err))
	}
}

// ones are bytes that are not zero, so that a file of them has no holes.
type ones struct{}

func (ones) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 1
	}
	return len(b), nil
}

// TestKilledPullLeavesNothingButWhatCame kills a process in the middle of a
// transfer; the next pull continues where it was, and tidies up.
func TestKilledPullLeavesNothingButWhatCame(t *testing.T) {
	f, addr := newFaulty(t)
	ref := addr + "/big:1"
	write(t, ref, imageOf(t, host, map[string][]byte{"a": noise(1, 2_000_000)}))
	release := make(chan struct{})
	f.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		all := httptest.NewRecorder()
		f.Handler.ServeHTTP(all, r)
		body := all.Body.Bytes()
		if len(body) > 1_000_000 {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			w.Write(body[:1_000_000])
			w.(http.Flusher).Flush()
			<-release
			return true
		}
		w.Write(body)
		return true
	})
	s := store(t)
	c := exec.Command(os.Args[0], "pull", s.Dir(), ref)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	size := func() (n int64) {
		entries, _ := os.ReadDir(filepath.Join(s.Dir(), "partial"))
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				n += info.Size()
			}
		}
		return n
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		if size() < 900_000 {
			return fmt.Errorf("only %d bytes came", size())
		}
		return nil
	})
	c.Process.Kill()
	c.Wait() //nolint:errcheck // it was killed
	close(release)
	f.set(nil)
	if left, _ := os.ReadDir(filepath.Join(s.Dir(), "tmp")); len(left) == 0 {
		t.Error("the test is no test: nothing was in the making")
	}
	if _, err := s.Pull(t.Context(), ref, PullOptions{}); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(f.gets, func(r string) bool { return r != "" && r != "bytes=0-" }) {
		t.Errorf("it began anew: %q", f.gets)
	}
	for _, kind := range []string{"tmp", "partial"} {
		if left, _ := os.ReadDir(filepath.Join(s.Dir(), kind)); len(left) > 0 {
			t.Errorf("left in %s: %v", kind, left)
		}
	}
}

// TestUnreadableFilesTravel: modes that forbid their owner to read are common.
func TestUnreadableFilesTravel(t *testing.T) {
	testkit.AsRootToo(t)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "dark/", Mode: 0},
		{Typeflag: tar.TypeReg, Name: "dark/in", Mode: 0o600, Size: 3},
		{Typeflag: tar.TypeDir, Name: "dim/", Mode: 0o400},
		{Typeflag: tar.TypeReg, Name: "dim/in", Mode: 0o600, Size: 3},
		{Typeflag: tar.TypeReg, Name: "shadow", Mode: 0, Size: 3, Uid: 7, Gid: 8},
		{Typeflag: tar.TypeLink, Name: "shadow-", Linkname: "shadow"},
		{Typeflag: tar.TypeReg, Name: "su", Mode: 0o4755, Size: 3, PAXRecords: map[string]string{"SCHILY.xattr.user.note": "v"}},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, "abc"[:h.Size])
	}
	w.Close()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	i, err := mutate.AppendLayers(imageOf(t, host), l)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "i.tar")
	tag, _ := name.NewTag("x:1")
	if err := tarball.WriteToFile(file, tag, i); err != nil {
		t.Fatal(err)
	}
	a, b := store(t), store(t)
	got, err := a.Pull(t.Context(), "docker-archive:"+file, PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var first, second, third bytes.Buffer
	if err := (content{a.dir, record{Image: got}}).writeTar(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	if err := a.ExportFlat(t.Context(), got.ID, &second); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ImportFlat(t.Context(), &second); err != nil {
		t.Fatal(err)
	}
	if err := (content{b.dir, record{Image: got}}).writeTar(t.Context(), &third); err != nil {
		t.Fatal(err)
	}
	// The root's own time is the only thing that the layer does not report.
	if a, b := members(t, first.Bytes()), members(t, third.Bytes()); a != b || !strings.Contains(a, "shadow 0 7:8") || !strings.Contains(a, "su 4755 0:0") || !strings.Contains(a, "dark/ 0 0:0") {
		t.Errorf("got\n%s\nthen\n%s", a, b)
	}
	info, err := os.Lstat(filepath.Join(b.dir.path("trees", got.ID), "shadow"))
	if err != nil || info.Mode() != 0 {
		t.Errorf("shadow: %v, %v", info.Mode(), err)
	}
	t.Cleanup(func() { fsutil.RemoveAll(a.Dir()) })
}

// members lists a tar stream.
func members(t *testing.T, raw []byte) string {
	t.Helper()
	var lines []string
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return strings.Join(lines, "\n")
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name != "./" {
			lines = append(lines, fmt.Sprintf("%s %o %d:%d %c %s %d %v", h.Name, h.Mode, h.Uid, h.Gid, h.Typeflag, h.Linkname, h.Size, h.PAXRecords["SCHILY.xattr.user.note"]))
		}
	}
}
