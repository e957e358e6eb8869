package overlay

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"
)

// maxLinks is how many links one path may have, as for the kernel.
const maxLinks = 40

// relink puts links into the upper layer in place of those on the way to a mount's target
// that a program would follow out of the container's root, as it resolves them on the host. The
// new ones are relative, and lead where the old ones lead inside.
func relink(tree, upper, target string) error {
	at, rest := "", strings.Split(target, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if at = path.Dir(at); at == "." {
				at = ""
			}
			continue
		}
		own := path.Join(at, name)
		to, err := os.Readlink(filepath.Join(tree, own))
		if err != nil { // no link, or nothing yet
			at = own
			continue
		}
		if links++; links > maxLinks {
			return &os.PathError{Op: "follow", Path: target, Err: unix.ELOOP}
		}
		if path.IsAbs(to) || slices.Contains(strings.Split(to, "/"), "..") {
			if err := relinkOne(tree, upper, at, own); err != nil {
				return err
			}
		}
		if path.IsAbs(to) {
			at = ""
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return nil
}

// relinkOne does so for one link, own, in the directory at.
func relinkOne(tree, upper, at, own string) error {
	real, err := securejoin.SecureJoin(tree, own)
	if err != nil {
		return err
	}
	to, err := filepath.Rel(filepath.Join(tree, at), real)
	if err != nil {
		return err
	}
	if err := makeAbove(tree, upper, at); err != nil {
		return err
	}
	if err := os.Symlink(to, filepath.Join(upper, own)); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}
