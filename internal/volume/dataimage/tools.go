package dataimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
)

// Tools finds e2fsprogs: the host's, or those that travel with a guest image.
type Tools struct {
	// Bundle is a directory with a loader, lib, and the programs, "" for none.
	Bundle string
}

// find gives the beginning of a program's command line.
func (t Tools) find(name string) ([]string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return []string{p}, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} { // not in an ordinary user's PATH
		if p := filepath.Join(dir, name); isFile(p) {
			return []string{p}, nil
		}
	}
	if p := filepath.Join(t.Bundle, name); t.Bundle != "" && isFile(p) {
		return []string{filepath.Join(t.Bundle, "loader"), "--library-path", filepath.Join(t.Bundle, "lib"), p}, nil
	}
	return nil, &core.Error{Kind: core.Unsupported, Op: "find program", Object: name, Err: errors.New("this host has none"), Remedy: "Install e2fsprogs (Debian: apt-get install e2fsprogs)."}
}

func isFile(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.Mode().IsRegular()
}

// run runs a program and gives its exit code and its words.
func (t Tools) run(ctx context.Context, name string, args ...string) (code int, printed string, err error) {
	return t.runIn(ctx, "", name, args...)
}

// runIn is run in a directory.
func (t Tools) runIn(ctx context.Context, dir, name string, args ...string) (code int, printed string, err error) {
	argv, err := t.find(name)
	if err != nil {
		return 0, "", err
	}
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "MKE2FS_CONFIG=/dev/null", "E2FSCK_CONFIG=/dev/null", "MKE2FS_SKIP_PROGRESS=1")
	if name == "mke2fs" { // what it makes is of no use to who comes after us
		runtime.LockOSThread() // of whose death it is notified
		defer runtime.UnlockOSThread()
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	out, err := cmd.CombinedOutput()
	printed = strings.TrimSpace(string(out))
	if ctx.Err() != nil {
		return 0, printed, context.Cause(ctx)
	}
	if e, ok := errors.AsType[*exec.ExitError](err); ok && e.Exited() {
		return e.ExitCode(), printed, nil
	}
	return 0, printed, err
}

// Check has e2fsck look an image over, without changing it.
func (t Tools) Check(ctx context.Context, file string) error {
	code, printed, err := t.run(ctx, "e2fsck", "-fn", file)
	if err == nil && code != 0 {
		err = &core.Error{
			Kind: core.Permanent, Op: "check data image", Object: file, Err: fmt.Errorf("e2fsck found faults:\n%s", printed),
			Remedy: "Use an earlier copy of it, or have `e2fsck -fy` mend what can be mended, on a copy.",
		}
	}
	return err
}

// Recover sets right an image that was in use when its machine ended: what was
// on its way to the file system is carried out from its journal. Only the
// journal, and what e2fsck holds safe, is touched. While a machine uses it that
// is refused: Busy.
func (t Tools) Recover(ctx context.Context, file string) error {
	release, err := Lock(file)
	if err != nil {
		return err
	}
	defer release()
	const mended = 3 // codes 1 and 2: all is right now
	code, printed, err := t.run(ctx, "e2fsck", "-fp", file)
	if err == nil && code > mended {
		err = &core.Error{
			Kind: core.Permanent, Op: "recover data image", Object: file, Err: fmt.Errorf("e2fsck cannot set it right safely:\n%s", printed),
			Remedy: "Use an earlier copy of it, or have `e2fsck -fy` mend what can be mended, on a copy.",
		}
	}
	return err
}

// OpenRecovered opens an image, after its recovery where it needs one.
func (t Tools) OpenRecovered(ctx context.Context, file string) (*Image, error) {
	i, err := Open(file)
	if !errors.Is(err, ErrUnclean) {
		return i, err
	}
	if err := t.Recover(ctx, file); err != nil {
		return nil, err
	}
	return Open(file)
}
