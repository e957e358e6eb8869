package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Binaries are copies of the programs that control runs, in the state directory. An update
// of bee replaces the installed program and none of these, so that an attempt is followed to
// its end by the program that launched it. Each has a directory, named by its digest.
type Binaries struct {
	s   *Store
	dir string
	// self is the program of this process. Its file may have another name by now, or none.
	self string
}

// Binaries returns the copies of the state directory.
func (s *Store) Binaries() Binaries {
	return Binaries{s, filepath.Join(s.dir, "binaries"), "/proc/self/exe"}
}

// Binary is a copy of a program.
type Binary struct {
	Digest string // the SHA-256 of its content
	Path   string
	lock   *fsutil.Lock
}

// Release ends the use of a copy that Keep has returned.
func (b Binary) Release() error {
	if b.lock == nil {
		return nil
	}
	return b.lock.Unlock()
}

const (
	binaryName = "bee"
	// sourceName is the file with the identities of the program that was copied and of the
	// copy, by which a digest is known without reading either again.
	sourceName = "source"
	// removedPrefix begins the names of directories that are being removed.
	removedPrefix = ".removed-"
	// binaryReserve is the room that a copy must leave for records.
	binaryReserve = 64 << 20
)

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Keep makes sure that there is a copy of this process's program. It stays until Release,
// and longer while an attempt that is not closed names it. Copies that nothing needs are
// removed. Programs for other architectures beside the installed one are copied, too. With
// an error the digest may be known, and there is no copy that can be used.
//
// The copy is not synced, as 50 MB would delay the first run. After a power failure it may
// be damaged: the same program then makes it again, and Find notices it by the digest.
func (b Binaries) Keep(ctx context.Context, installed string) (Binary, error) {
	info, err := os.Stat(b.self)
	if err != nil {
		return Binary{}, unkept(b.dir, err)
	}
	digest, err := b.digestOfSelf(info)
	if err != nil {
		return Binary{}, unkept(b.dir, err)
	}
	kept := Binary{Digest: digest, Path: b.Path(digest)}
	if kept.lock, err = b.use(ctx, digest); err != nil {
		return Binary{Digest: digest}, unkept(kept.Path, err)
	}
	if err := b.copySelf(digest, info); err != nil {
		kept.lock.Unlock()
		return Binary{Digest: digest}, unkept(kept.Path, err)
	}
	err = b.copyOthers(digest, filepath.Dir(installed))
	return kept, errors.Join(err, b.Prune(ctx))
}

func unkept(path string, err error) error {
	return &core.Error{
		Kind: core.KindOf(err), Op: "keep a copy of bee in", Object: path, Err: err,
		Remedy: "Runs continue. After an update of bee, keep the version before until they are over.",
	}
}

// Find returns a copy, after comparing its content with its digest. NotFound: it is gone,
// or is not what it was.
func (b Binaries) Find(digest string) (Binary, error) {
	if !digestForm.MatchString(digest) {
		return Binary{}, &core.Error{Kind: core.NotFound, Op: "find the bee", Object: digest, Err: errors.New("that is no digest"), Remedy: core.RemedyFault}
	}
	found := Binary{Digest: digest, Path: b.Path(digest)}
	is, err := "", fsutil.CheckParents(found.Path)
	if err == nil {
		is, err = fsutil.Digest(found.Path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("it is gone")
	case err == nil && is != digest:
		err = fmt.Errorf("it was changed: its SHA-256 is %s", is)
	case err == nil:
		err = unix.Access(found.Path, unix.X_OK)
	}
	if err != nil {
		return Binary{}, &core.Error{
			Kind: core.NotFound, Op: "find the bee that launched it", Object: found.Path, Err: err,
			Remedy: fmt.Sprintf("Store that version of bee at %s, as an executable file (SHA-256 %s), and run `bee supervise`.", found.Path, digest),
		}
	}
	return found, nil
}

// Path is where the copy of a digest is, or would be.
func (b Binaries) Path(digest string) string { return filepath.Join(b.dir, digest, binaryName) }

// names returns the digests of which there are directories.
func (b Binaries) names() (digests []string) {
	entries, _ := os.ReadDir(b.dir) // where it is missing, there are none
	for _, e := range entries {
		if digestForm.MatchString(e.Name()) {
			digests = append(digests, e.Name())
		}
	}
	return digests
}

// digestOfSelf returns the digest of this process's program.
func (b Binaries) digestOfSelf(self fs.FileInfo) (string, error) {
	for _, digest := range b.names() {
		copied, err := os.Stat(b.Path(digest))
		if err != nil {
			continue
		}
		source, is := b.known(digest)
		if is == identity(copied) && (source == identity(self) || os.SameFile(copied, self)) {
			return digest, nil
		}
	}
	return fsutil.Digest(b.self)
}

// known returns the identities of a copied program and of its copy as they were recorded.
func (b Binaries) known(digest string) (source, is string) {
	raw, err := os.ReadFile(filepath.Join(b.dir, digest, sourceName))
	if err != nil {
		return "", ""
	}
	source, is, _ = strings.Cut(strings.TrimSpace(string(raw)), "\n")
	return source, is
}

// identity is what changes with each change of a file: nobody sets the last time in it.
func identity(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d %d %d %d.%09d %d.%09d", st.Dev, st.Ino, st.Size, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec)
}

// use locks a copy against its removal, together with the other processes that use it.
func (b Binaries) use(ctx context.Context, digest string) (*fsutil.Lock, error) {
	pause := fsutil.Backoff{First: firstRemovalLook, Longest: longestRemovalLook}
	for {
		err := fsutil.OwnDir(filepath.Join(b.dir, digest))
		if err != nil {
			return nil, err
		}
		lock, err := fsutil.TryLockShared(b.lockOf(digest))
		if !errors.Is(err, fs.ErrNotExist) && !core.IsKind(err, core.Busy) { // else it is being removed
			return lock, err
		}
		if err := pause.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// How often it is looked whether a copy is still being removed.
const (
	firstRemovalLook   = 2 * time.Millisecond
	longestRemovalLook = 50 * time.Millisecond
)

func (b Binaries) lockOf(digest string) string { return filepath.Join(b.dir, digest, lockName) }

// copySelf copies this process's program, unless the copy is there and whole.
func (b Binaries) copySelf(digest string, self fs.FileInfo) error {
	path := b.Path(digest)
	info, err := os.Stat(path)
	if err == nil {
		if os.SameFile(info, self) {
			return nil
		}
		source, is := b.known(digest)
		whole := is == identity(info) && unix.Access(path, unix.X_OK) == nil
		if whole && source == identity(self) {
			return nil
		}
		if !whole && info.Size() == self.Size() {
			was, err := fsutil.Digest(path)
			whole = err == nil && was == digest && unix.Access(path, unix.X_OK) == nil
		}
		if whole {
			return b.record(digest, self)
		}
	}
	if is, err := copyProgram(b.self, path); err != nil {
		return err
	} else if is != digest {
		return errors.Join(os.Remove(path), errors.New("the copy differs from the program"))
	}
	return b.record(digest, self)
}

// record stores by which identities a program and its copy are known.
func (b Binaries) record(digest string, self fs.FileInfo) error {
	info, err := os.Stat(b.Path(digest))
	if err != nil {
		return err
	}
	text := identity(self) + "\n" + identity(info) + "\n"
	return os.WriteFile(filepath.Join(b.dir, digest, sourceName), []byte(text), 0o600)
}

// copyOthers copies the programs for other architectures that a release has beside its own.
func (b Binaries) copyOthers(digest, installed string) error {
	others, err := filepath.Glob(fsutil.QuoteGlob(installed) + "/bee-linux-*")
	for _, from := range others {
		to := filepath.Join(b.dir, digest, filepath.Base(from))
		if _, serr := os.Lstat(to); serr == nil {
			continue
		}
		if _, cerr := copyProgram(from, to); cerr != nil {
			err = errors.Join(err, unkept(to, cerr))
		}
	}
	return err
}

// copyProgram copies a program, so that its name has all of it or nothing, and returns the
// digest of what was written. A user of an image may have to execute it in a container, so
// all may read it: its directory is closed to others.
func copyProgram(from, to string) (digest string, err error) {
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return "", err
	}
	if free, err := fsutil.Space(filepath.Dir(to)); err == nil && free < info.Size()+binaryReserve {
		return "", fmt.Errorf("%d MiB are free, and %d MiB must stay free beside it", free>>20, binaryReserve>>20)
	}
	out, err := os.CreateTemp(filepath.Dir(to), ".copy-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			fsutil.TryRemove(out.Name()) // the first error says it
		}
	}()
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, h), in)
	if err = errors.Join(err, out.Chmod(0o755), out.Close()); err != nil {
		return "", err
	}
	if err := unix.Access(out.Name(), unix.X_OK); err != nil {
		return "", fmt.Errorf("no programs may be run there: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), os.Rename(out.Name(), to)
}

// Prune removes the copies that neither a process nor an attempt needs.
func (b Binaries) Prune(ctx context.Context) error {
	entries, err := os.ReadDir(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), removedPrefix) { // its remover died
			err = errors.Join(err, fsutil.RemoveAll(filepath.Join(b.dir, e.Name())))
		}
	}
	for _, digest := range b.names() {
		err = errors.Join(err, b.pruneOne(ctx, digest))
	}
	return err
}

// pruneOne removes a copy that nothing needs. The attempts are read below the lock: an
// attempt is recorded by a process that uses the copy.
func (b Binaries) pruneOne(ctx context.Context, digest string) error {
	lock, err := fsutil.TryLock(b.lockOf(digest))
	if core.IsKind(err, core.Busy) || errors.Is(err, fs.ErrNotExist) { // it is used, or another process has removed it
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	open, err := b.s.attempts(ctx, "WHERE state<>'closed'")
	if err != nil {
		return err
	}
	for _, a := range open {
		if a.Binary == digest || a.Unreadable != nil { // which it needs is not known
			return nil
		}
	}
	removed := filepath.Join(b.dir, removedPrefix+NewID())
	if err := os.Rename(filepath.Join(b.dir, digest), removed); err != nil {
		return err
	}
	return fsutil.RemoveAll(removed)
}
