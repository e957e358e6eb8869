package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image/source"
	"golang.org/x/sys/unix"
)

// lendBases makes the images of the cache that a Dockerfile names known to a builder of
// this host, under these names and until undo is called. What the builder has under such
// a name already stays.
func (b *build) lendBases(ctx context.Context, tool, file string) (undo func(), err error) {
	var undone []func()
	undo = func() {
		for _, f := range slices.Backward(undone) {
			f()
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return undo, err
	}
	for _, ref := range bases(string(text), b.o.Platform, b.spec.Args) {
		parsed, err := source.ParseRef(ref, false)
		if err != nil {
			continue
		}
		i, ok := b.cache.ref(parsed.Name(), b.o.Platform, ref)
		if !ok || builderHas(ctx, tool, ref) {
			continue
		}
		if r, err := b.cache.read(i.ID); err != nil || b.o.Policy == "always" && len(r.Layers) > 0 {
			continue // its registry may have another by now
		}
		back, err := b.lend(ctx, tool, ref, i)
		undone = append(undone, back)
		if err != nil {
			return undo, &core.Error{Kind: core.KindOf(err), Op: "get what to build on for", Object: file, Err: err, Remedy: core.Remedy(err)}
		}
	}
	return undo, nil
}

// withBases adds the images of this cache alone that a build is based on to its key: a name
// may be another's by now. What a registry has under a name does not count, as with any
// tag that is there already.
func (b *build) withBases(key string) string {
	if b.spec.Context == "" {
		return key
	}
	text, err := os.ReadFile(b.spec.DockerfileIn(b.spec.Context))
	if err != nil {
		return key // the build shows it
	}
	ids := ""
	for _, ref := range bases(string(text), b.o.Platform, b.spec.Args) {
		parsed, err := source.ParseRef(ref, false)
		if err != nil {
			continue
		}
		i, ok := b.cache.ref(parsed.Name(), b.o.Platform, ref)
		if r, err := b.cache.read(i.ID); ok && err == nil && len(r.Layers) == 0 {
			ids += ref + " " + i.ID + "\n"
		}
	}
	if ids == "" {
		return key
	}
	sum := sha256.Sum256([]byte(key + "\n" + ids))
	return "build:" + hex.EncodeToString(sum[:])
}

// lend does so with one image. Another build that wants the same name waits.
func (b *build) lend(ctx context.Context, tool, ref string, i core.Image) (undo func(), err error) {
	sum := sha256.Sum256([]byte(tool + " " + ref))
	lock, err := b.cache.dir.lock(ctx, "base-"+hex.EncodeToString(sum[:8]), unix.LOCK_EX)
	if err != nil {
		return func() {}, err
	}
	var names []string
	undo = func() {
		for _, n := range names {
			core.BestEffort(exec.Command(tool, "rmi", n).Run()) //nolint:noctx // what is built on it keeps its layers
		}
		lock.Close()
	}
	b.o.Progress("packing "+ref+" for the build", 0, 0)
	archive, tag, err := b.cache.Archive(ctx, i.ID)
	if err != nil {
		return undo, err
	}
	name := baseName(tool, ref)
	commands := [][]string{{tool, "tag", tag, name}}
	names = append(names, name)
	if !builderHas(ctx, tool, tag) {
		names = append(names, tag)
		commands = slices.Insert(commands, 0, loadCommand(tool, archive))
	}
	for _, argv := range commands {
		if err := run(ctx, "", argv, nil, b.o); err != nil {
			return undo, err
		}
	}
	return undo, nil
}

func loadCommand(tool, archive string) []string {
	if tool == "buildah" {
		return []string{tool, "pull", "--quiet", "docker-archive:" + archive}
	}
	return []string{tool, "load", "--input", archive}
}

// baseName is the name under which a builder finds an image that a Dockerfile calls ref,
// without asking a registry: buildah and podman look for short names below localhost.
func baseName(tool, ref string) string {
	host, _, path := strings.Cut(ref, "/")
	short := !path || host != "localhost" && !strings.ContainsAny(host, ".:")
	if tool != "docker" && short {
		return "localhost/" + ref
	}
	return ref
}

// builderHas reports whether a builder's own storage has a name.
func builderHas(ctx context.Context, tool, name string) bool {
	argv := []string{"image", "inspect", name}
	if tool == "buildah" {
		argv = []string{"inspect", "--type", "image", name}
	}
	return exec.CommandContext(ctx, tool, argv...).Run() == nil
}
