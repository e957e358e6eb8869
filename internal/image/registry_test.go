package image

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// store gives a fresh cache that is removed even with unwritable directories.
func store(t testing.TB) *Store {
	t.Helper()
	dir, err := os.MkdirTemp("", "bee-image-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fsutil.RemoveAll(dir) })
	s, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMain lets the test binary be another process that pulls.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "build" {
		var b spec.Build
		s, err := Open(os.Args[2], slog.New(slog.DiscardHandler))
		if err = errors.Join(err, json.Unmarshal([]byte(os.Args[3]), &b)); err == nil {
			_, err = s.Build(context.Background(), b, PullOptions{})
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if len(os.Args) == 4 && os.Args[1] == "pull" {
		s, err := Open(os.Args[2], slog.New(slog.DiscardHandler))
		if err == nil {
			var i core.Image
			if i, err = s.Pull(context.Background(), os.Args[3], PullOptions{}); err == nil {
				fmt.Println(i.ID)
				os.Exit(0)
			}
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func push(t *testing.T, s *Store, id, ref string) error {
	_, err := s.Push(t.Context(), id, ref, PullOptions{})
	return err
}

// listing gives a tree as lines of name, mode, link and content.
func listing(t *testing.T, root string) string {
	t.Helper()
	var lines []string
	err := filepath.Walk(root, func(p string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		line := info.Mode().String() + " " + p[len(root):]
		if info.Mode()&os.ModeSymlink != 0 {
			to, _ := os.Readlink(p)
			line += " -> " + to
		}
		if info.Mode().IsRegular() {
			raw, _ := os.ReadFile(p)
			line += fmt.Sprintf(" %x %v", sha256.Sum256(raw), info.ModTime().UnixNano())
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func busybox(t *testing.T) string {
	return "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"A=b"}, Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{"true"}, WorkingDir: "/tmp", User: "root"})
}

func TestPushAndPull(t *testing.T) {
	addr := testkit.Registry(t, "")
	from, to := store(t), store(t)
	i, err := from.Pull(t.Context(), busybox(t), PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ref := addr + "/test/busybox:1"
	if err := push(t, from, i.ID, ref); err != nil {
		t.Fatal(err)
	}
	got, err := to.Pull(t.Context(), ref, PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Ref != ref || fmt.Sprint(got.Config) != fmt.Sprint(i.Config) || got.Arch != runtime.GOARCH {
		t.Errorf("got %+v, want the configuration of %+v", got, i)
	}
	if a, b := listing(t, from.dir.path("trees", i.ID)), listing(t, to.dir.path("trees", got.ID)); a != b {
		t.Errorf("the trees differ:\n%s\n%s", a, b)
	}
	t.Run("a tag that is cached is not asked for again", func(t *testing.T) {
		again, err := to.Pull(t.Context(), ref, PullOptions{Policy: "never"})
		if err != nil || again.ID != got.ID {
			t.Errorf("got %v, %v", again.ID, err)
		}
	})
	t.Run("never forbids to fetch", func(t *testing.T) {
		if _, err := store(t).Pull(t.Context(), ref, PullOptions{Policy: "never"}); !core.IsKind(err, core.NotFound) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("by digest", func(t *testing.T) {
		other := store(t)
		again, err := other.Pull(t.Context(), addr+"/test/busybox@"+got.ID, PullOptions{})
		if err != nil || again.ID != got.ID {
			t.Errorf("got %v, %v", again.ID, err)
		}
	})
	t.Run("no such image", func(t *testing.T) {
		if _, err := to.Pull(t.Context(), addr+"/test/nothing:1", PullOptions{}); !core.IsKind(err, core.NotFound) || core.Remedy(err) == "" {
			t.Errorf("got %v (%v)", err, core.KindOf(err))
		}
	})
	t.Run("many processes at once", func(t *testing.T) {
		s := store(t)
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				out, err := exec.Command(os.Args[0], "pull", s.Dir(), ref).CombinedOutput()
				if err != nil || strings.TrimSpace(string(out)) != got.ID {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		wg.Wait()
		if left, _ := os.ReadDir(filepath.Join(s.Dir(), "tmp")); len(left) > 0 {
			t.Errorf("left in tmp: %v", left)
		}
	})
}

func TestRegistryWithPassword(t *testing.T) {
	addr, dir := testkit.PrivateRegistry(t)
	s := store(t)
	i, err := s.Pull(t.Context(), busybox(t), PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	push := func() error {
		return push(t, s, i.ID, addr+"/private:1")
	}
	if err := push(); !core.IsKind(err, core.Permanent) || !strings.Contains(core.Remedy(err), "docker login") {
		t.Errorf("without a password: %v, remedy %q", err, core.Remedy(err))
	}
	t.Setenv("DOCKER_CONFIG", dir)
	if err := push(); err != nil {
		t.Fatalf("with the password: %v", err)
	}
	if _, err := store(t).Pull(t.Context(), addr+"/private:1", PullOptions{}); err != nil {
		t.Errorf("pull with the password: %v", err)
	}
	// Where it is not in the file, a program reports it: desktops keep it in their rings.
	config := fmt.Appendf(nil, `{"credHelpers":{%q:"ring"}}`, addr)
	helper := "#!/bin/sh\n[ \"$1\" = get ] && [ \"$(cat)\" = " + addr + ` ] && echo '{"Username":"ann","Secret":"secret"}'` + "\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600), core.WriteProgram(filepath.Join(dir, "docker-credential-ring"), []byte(helper), 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := store(t).Pull(t.Context(), addr+"/private:1", PullOptions{}); !core.IsKind(err, core.Permanent) {
		t.Errorf("without the helper: %v", err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if _, err := store(t).Pull(t.Context(), addr+"/private:1", PullOptions{}); err != nil {
		t.Errorf("with the helper: %v", err)
	}
}

func TestRegistryWithTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	selfSigned(t, cert, key)
	addr := testkit.Registry(t, ", tls: {certificate: "+cert+", key: "+key+"}")
	s := store(t)
	// The system's certificates are read once per process, so that trust is
	// tried in processes of their own.
	try := func(env ...string) (string, error) {
		c := exec.Command(os.Args[0], "pull", s.Dir(), "localhost:"+addr[strings.LastIndex(addr, ":")+1:]+"/nothing:1")
		c.Env = append(os.Environ(), env...)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := try("SSL_CERT_FILE=/dev/null", "SSL_CERT_DIR=/nowhere"); err == nil || !strings.Contains(out, "certificate") {
		t.Errorf("an unknown authority: %v: %s", err, out)
	}
	// A directory of docker's for this registry is as good.
	own := filepath.Join(dir, "docker")
	certs := filepath.Join(own, "certs.d", "localhost:"+addr[strings.LastIndex(addr, ":")+1:])
	pem, err := os.ReadFile(cert)
	if err := errors.Join(err, os.MkdirAll(certs, 0o755), os.WriteFile(filepath.Join(certs, "ca.crt"), pem, 0o644)); err != nil {
		t.Fatal(err)
	}
	if out, err := try("SSL_CERT_FILE=/dev/null", "SSL_CERT_DIR=/nowhere", "DOCKER_CONFIG="+own); err == nil || strings.Contains(out, "certificate") || !strings.Contains(out, "MANIFEST_UNKNOWN") && !strings.Contains(out, "NAME_UNKNOWN") {
		t.Errorf("an authority of certs.d: %v: %s", err, out)
	}
	if out, err := try("SSL_CERT_FILE=" + cert); err == nil || strings.Contains(out, "certificate") || !strings.Contains(out, "MANIFEST_UNKNOWN") && !strings.Contains(out, "NAME_UNKNOWN") {
		t.Errorf("a known authority: %v: %s", err, out)
	}
}

func selfSigned(t *testing.T, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	rawKey, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: raw}, keyFile: {Type: "EC PRIVATE KEY", Bytes: rawKey}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFlatStreamTravels(t *testing.T) {
	from, to := store(t), store(t)
	i, err := from.Pull(t.Context(), busybox(t), PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	if err := from.ExportFlat(t.Context(), i.ID, &stream); err != nil {
		t.Fatal(err)
	}
	raw := bytes.Clone(stream.Bytes())
	got, err := to.ImportFlat(t.Context(), &stream)
	if err != nil || got.ID != i.ID || !to.Has(i.ID) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if a, b := listing(t, from.dir.path("trees", i.ID)), listing(t, to.dir.path("trees", i.ID)); a != b {
		t.Errorf("the trees differ:\n%s\n%s", a, b)
	}
	for name, damaged := range map[string][]byte{"cut": raw[:len(raw)/2], "flipped": flip(raw, len(raw)/2), "empty": nil} {
		t.Run(name, func(t *testing.T) {
			s := store(t)
			if _, err := s.ImportFlat(t.Context(), bytes.NewReader(damaged)); err == nil || s.Has(i.ID) {
				t.Errorf("a damaged stream was taken in: %v", err)
			}
			if left, _ := os.ReadDir(filepath.Join(s.Dir(), "tmp")); len(left) > 0 {
				t.Errorf("left in tmp: %v", left)
			}
		})
	}
}

func flip(raw []byte, at int) []byte {
	out := bytes.Clone(raw)
	out[at] ^= 0xff
	return out
}

// An image of the cache is found by its id, or the beginning of one, and no
// registry is asked for what is not there.
func TestResolveByID(t *testing.T) {
	s := store(t)
	i, err := s.Pull(t.Context(), busybox(t), PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	resolve := func(id, platform string) (core.Image, error) {
		return s.Resolve(t.Context(), &spec.Job{Image: id, Platform: platform}, i.Arch, "always", nil)
	}
	for _, id := range []string{i.ID, i.ID[:19]} {
		if got, err := resolve(id, ""); err != nil || got.ID != i.ID {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
	}
	if _, err := resolve("sha256:"+strings.Repeat("0", 64), ""); !core.IsKind(err, core.NotFound) {
		t.Errorf("an id that is not there: %v", err)
	}
	if _, err := resolve("sha256:", ""); !core.IsKind(err, core.NotFound) {
		t.Errorf("no id at all: %v", err)
	}
	if _, err := resolve(i.ID, "linux/"+i.Arch); err != nil {
		t.Errorf("for its own platform: %v", err)
	}
	if _, err := resolve(i.ID, "linux/s390x"); !core.IsKind(err, core.Invalid) {
		t.Errorf("for another platform: %v", err)
	}
}

func TestRemoveSparesWhatIsUsed(t *testing.T) {
	s := store(t)
	i, err := s.Pull(t.Context(), busybox(t), PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, release, err := s.Tree(t.Context(), i.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := (Remover{Cache: s}).Remove(i.ID); !core.IsKind(err, core.Busy) {
		t.Errorf("an image in use: %v", err)
	}
	if gone, err := (Remover{Cache: s}).Prune(t.Context()); err != nil || len(gone) != 0 {
		t.Errorf("prune took %v, %v", gone, err)
	}
	release()
	if gone, err := (Remover{Cache: s}).Prune(t.Context()); err != nil || len(gone) != 1 {
		t.Errorf("prune took %v, %v", gone, err)
	}
	nothingLeft(t, s)
}

func nothingLeft(t *testing.T, s *Store) {
	t.Helper()
	for _, kind := range []string{"blobs", "images", "trees", "archives", "refs", "kept", "tmp"} {
		if left, _ := os.ReadDir(filepath.Join(s.Dir(), kind)); len(left) > 0 {
			t.Errorf("left in %s: %v", kind, left)
		}
	}
}

// TestHalvesOfImagesArePruned: what there is of an image whose tree a killed process had
// not made yet, or removed already; but not while that may be continuing.
func TestHalvesOfImagesArePruned(t *testing.T) {
	s := store(t)
	i, err := s.Pull(t.Context(), busybox(t), PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	record, kept, archive := s.dir.path("images", i.ID)+".json", s.Kept(i.ID), s.dir.path("archives", i.ID)+archiveSuffix
	if err := errors.Join(os.Rename(s.dir.path("trees", i.ID), filepath.Join(t.TempDir(), "tree")), os.MkdirAll(kept, 0o700), os.WriteFile(archive, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if gone, err := (Remover{Cache: s}).Prune(t.Context()); err != nil || len(gone) != 0 {
		t.Errorf("prune took %v, %v", gone, err)
	}
	if _, err := os.Stat(record); err != nil {
		t.Errorf("what may be in the making: %v", err)
	}
	long := time.Now().Add(-2 * soonWhole)
	for _, name := range []string{record, kept, archive} {
		if err := os.Chtimes(name, long, long); err != nil {
			t.Fatal(err)
		}
	}
	if gone, err := (Remover{Cache: s}).Prune(t.Context()); err != nil || len(gone) != 0 {
		t.Errorf("prune took %v, %v", gone, err)
	}
	nothingLeft(t, s)
}
