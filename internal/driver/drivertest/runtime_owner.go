package drivertest

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/image/erofs"
	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// ownerVariable names the file with the specification of the container that a
// test process, started again, is to start and hold.
const ownerVariable = "BEE_SUITE_OWNER"

// OwnerMain is to be called by an adapter's TestMain: in a process that the
// suite has started to own a container, it does that and does not return.
func OwnerMain(rt func() driver.Runtime) {
	if os.Getenv(callsVariable) != "" {
		makeCalls()
		os.Exit(0)
	}
	file := os.Getenv(ownerVariable)
	if file == "" {
		return
	}
	err := func() error {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var c driver.ContainerSpec
		if err := json.Unmarshal(raw, &c); err != nil {
			return err
		}
		box, err := rt().Start(context.Background(), c)
		if err != nil {
			return err
		}
		// A process in its own session, that obeys no signal, with a mark to find it by.
		_, err = box.Exec(context.Background(), driver.Command{Args: []string{"sh", "-c", "trap '' TERM HUP INT; while :; do sleep 7.25; done", c.Name}, Env: []string{"PATH=/bin"}})
		return err
	}()
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	fmt.Println("up")
	select {}
}

// killOwner kills the process that started a container: nothing may be left.
func (s RuntimeSuite) killOwner(t *testing.T) {
	c := s.spec(t)
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(c.StateDir, "spec.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	owner := exec.Command("/proc/self/exe", "-test.run=^$")
	owner.Env = append(os.Environ(), ownerVariable+"="+file)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	defer owner.Process.Kill()
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "up\n" {
		t.Fatalf("the owner says %q (does its TestMain call OwnerMain?)", line)
	}
	testkit.Eventually(t, 20*time.Second, func() error { // they take their names by and by
		if len(processesNaming(c.Name)) == 0 {
			return errors.New("no process of the container is to be seen")
		}
		return nil
	})
	if s.Names != nil {
		Same(t, []string{c.Name}, s.Names(t, c.Owner))
	}
	owner.Process.Kill()
	owner.Wait() //nolint:errcheck // it was killed
	testkit.Eventually(t, 20*time.Second, func() error {
		if left := processesNaming(c.Name, c.RunDir); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(c.StateDir)) {
		t.Errorf("a mount is left: %v", err)
	}
	s.goes(t, c.Owner)
}

func processesNaming(words ...string) []string {
	entries, _ := os.ReadDir("/proc")
	var found []string
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || e.Name() == fmt.Sprint(os.Getpid()) {
			continue
		}
		for _, w := range words {
			if bytes.Contains(raw, []byte(w)) {
				found = append(found, e.Name()+" "+strings.ReplaceAll(string(raw), "\x00", " "))
				break
			}
		}
	}
	return found
}

// localImage gives a small real image in all forms. It names a USER, who counts in
// no container: see the case Identity.
func localImage(t *testing.T) driver.LocalImage {
	t.Helper()
	return formsOf(t, testkit.Busybox(t, v1.Config{Env: []string{"FROM_IMAGE=1"}}), "bee.test/busybox:1")
}

// formsOf gives the image of an archive in all forms.
func formsOf(t *testing.T, archive, tag string) driver.LocalImage {
	t.Helper()
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(t.TempDir(), "tree")
	r := mutate.Extract(image)
	defer r.Close()
	if err := untar(r, tree); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(archive, 0o644); err != nil {
		t.Fatal(err)
	}
	file, config := fileSystem(t, image, digest)
	return driver.LocalImage{
		Image: core.Image{ID: digest.String(), Ref: "busybox"}, Tree: tree, Archive: archive, ArchiveTag: tag,
		FileSystem: file, Config: config,
	}
}

// fileSystem makes an image's one layer a file system.
func fileSystem(t *testing.T, image v1.Image, digest v1.Hash) (string, []byte) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image.erofs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := mutate.Extract(image)
	defer r.Close()
	if err := erofs.Write(f, r); err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.RootFS, config.History = v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{digest}}, nil
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return f.Name(), raw
}

// untar unpacks the suite's own harmless image.
func untar(r io.Reader, root string) error {
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(root, h.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
			if err == nil {
				defer os.Chmod(path, h.FileInfo().Mode()) //nolint:errcheck // the cases that want it check it
			}
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, path)
		default:
			var f *os.File
			if f, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, h.FileInfo().Mode()); err == nil {
				_, err = io.Copy(f, in)
				err = errors.Join(err, f.Close())
			}
		}
		if err != nil {
			return err
		}
	}
}

// Same fails the test when a command line, or anything else, is not what it has
// to be.
func Same(t testing.TB, want, got any) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Errorf("want %q\n got %q", want, got)
	}
}
