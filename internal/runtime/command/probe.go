package command

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// probeTime is how long starting a container may take at most.
const probeTime = 60 * time.Second

// Probe starts a container of an image with nothing in it, and ends it. The
// image is made by the given function in a directory that is removed again.
func Probe(ctx context.Context, r driver.Runtime, binary string, image func(ctx context.Context, dir string) (driver.LocalImage, error)) (driver.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	dir, err := fsutil.TempDir("", "bee-probe-")
	if err != nil {
		return driver.Facts{}, err
	}
	defer os.RemoveAll(dir)
	err = try(ctx, r, binary, dir, image)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return driver.Facts{Reason: "it is not installed here", Remedy: core.Remedy(err)}, nil
	case err != nil:
		remedy := cmp.Or(core.OwnRemedy(err), remedyOf(err.Error()), "Without `runtime: "+r.Info().Name+"`, one that works here is taken.")
		return driver.Facts{Reason: "it starts no containers here: " + lastCause(err), Remedy: remedy}, nil
	}
	return driver.Facts{Usable: true}, nil
}

// remedyOf is what to do about what these programs say where they cannot start, or "".
func remedyOf(printed string) string {
	for _, known := range []struct{ words, remedy string }{
		{"newuidmap", subordinate},
		{"subuid", subordinate},
		{"user namespace", namespaces},
		{"user+mount namespaces", namespaces},
	} {
		if strings.Contains(printed, known.words) {
			return known.remedy
		}
	}
	return ""
}

const (
	subordinate = "It needs the package uidmap and a line for you in /etc/subuid and /etc/subgid: ask the administrator for `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER`; or leave `runtime:` out, as BEE's own runtime needs neither."
	namespaces  = "Ask the administrator to allow user namespaces (user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns), or use `vm: true`, which needs none."
)

// lastCause is what is left of an error without what was tried by the probe, which its
// reader has not asked for, and without what the program warned of before.
func lastCause(err error) string {
	for {
		e, is := errors.AsType[*core.Error](err)
		if !is || e.Err == nil {
			break
		}
		err = e.Err
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	return strings.TrimPrefix(strings.TrimPrefix(lines[len(lines)-1], "exit status 1: "), "Error: ")
}

func try(ctx context.Context, r driver.Runtime, binary, dir string, image func(ctx context.Context, dir string) (driver.LocalImage, error)) error {
	binary, err := Self(binary)
	if err != nil {
		return err
	}
	s := driver.ContainerSpec{
		Owner: core.Owner{User: "probe", Run: "probe", Attempt: 1}, Name: "bee-" + filepath.Base(dir),
		StateDir: filepath.Join(dir, "state"), RunDir: filepath.Join(dir, "run"), Binary: binary,
	}
	if err := errors.Join(os.Mkdir(s.StateDir, 0o700), os.Mkdir(s.RunDir, 0o700)); err != nil {
		return err
	}
	if s.Image, err = image(ctx, dir); err != nil {
		return err
	}
	c, err := r.Start(ctx, s)
	if err != nil {
		return err
	}
	return c.Stop(ctx, 2*time.Second)
}

// ProbeTag is the tag of the image with nothing in it.
const ProbeTag = "bee.local/probe:1"

// EmptyTree makes an image with nothing in it, as a tree in a directory.
func EmptyTree(_ context.Context, dir string) (driver.LocalImage, error) {
	i := driver.LocalImage{Tree: filepath.Join(dir, "tree")}
	return i, os.Mkdir(i.Tree, 0o755)
}

// Import gives an image with nothing in it to podman or docker.
func Import(ctx context.Context, program string) (driver.LocalImage, error) {
	i := driver.LocalImage{ArchiveTag: ProbeTag}
	if _, err := Output(ctx, nil, program, "image", "inspect", "--format", "{{.Id}}", ProbeTag); err == nil {
		return i, nil
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755, ModTime: time.Unix(1, 0)})
	if err = errors.Join(err, w.Close()); err != nil {
		return i, err
	}
	_, err = Output(ctx, b.Bytes(), program, "import", "-", ProbeTag)
	return i, err
}

// Load gives an archive to podman or docker unless it has it already.
func Load(ctx context.Context, program string, i driver.LocalImage) error {
	if _, err := Output(ctx, nil, program, "image", "inspect", "--format", "{{.Id}}", i.ArchiveTag); err == nil {
		return nil
	}
	if _, err := os.Stat(i.Archive); err != nil {
		return &core.Error{Kind: core.NotFound, Op: "prepare image", Object: i.Ref, Err: err}
	}
	_, err := Output(ctx, nil, program, "load", "--input", i.Archive)
	return err
}
