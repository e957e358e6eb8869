package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Steady is how long the files of a checkpoint must not have changed to count
// as whole.
const Steady = time.Second

// Look describes the files of a checkpoint on one host at one moment.
type Look struct {
	Files int `json:"files"`
	// Digest changes with every change of a file, and with what is there.
	Digest string `json:"digest"`
	// Busy reports that one was changed just before.
	Busy bool `json:"busy"`
}

// Look looks at what patterns match in a copy of the volume. Directories count, too: a file
// that was removed to be written again has changed its directory.
func (t Trees) Look(volume string, globs []string) (Look, error) {
	tree, err := t.Open(volume)
	if err != nil {
		return Look{}, err
	}
	defer tree.Close()
	parts, err := Parts(tree, globs)
	if err != nil {
		return Look{}, err
	}
	var l Look
	all := sha256.New()
	for _, rel := range parts {
		err := tree.Walk(rel, func(name string, info fs.FileInfo, err error) error {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) { // it is gone just now
				l.Busy = true
				return nil
			}
			if err != nil {
				return err
			}
			st, is := info.Sys().(*syscall.Stat_t)
			if !is {
				return errors.ErrUnsupported
			}
			if !info.IsDir() {
				l.Files++
			}
			// The time of the last change of its inode: that of its content can be set.
			l.Busy = l.Busy || time.Since(time.Unix(st.Ctim.Unix())) < Steady
			fmt.Fprintf(all, "%q %d %d %d %d\n", name, st.Mode, st.Size, st.Ino, st.Ctim.Nano())
			return nil
		})
		if err != nil {
			return Look{}, err
		}
	}
	l.Digest = hex.EncodeToString(all.Sum(nil))
	return l, nil
}

// Check implements the check of package rpc.
func (l Look) Check() error {
	if l.Files < 0 || l.Files > maxFiles || len(l.Digest) > 2*sha256.Size {
		return &core.Error{Kind: core.Invalid, Op: "check", Object: "look at files", Err: fmt.Errorf("%d files and the digest %.100q are no valid value", l.Files, l.Digest), Remedy: core.RemedyVersions}
	}
	return nil
}

// maxFiles bounds the files of a volume.
const maxFiles = 1 << 40
