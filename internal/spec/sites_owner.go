package spec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// readSitesFile reads a sites file, which runs commands as its user: one that others can
// change is refused, as ssh refuses its configuration.
func readSitesFile(file string) ([]byte, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	if err := fsutil.CheckParents(path); err != nil {
		if e, is := errors.AsType[*core.Error](err); is {
			return nil, changeableSites(file, e.Err, "Move it to a directory that only you can write, such as ~/.config/bee, or take that right from others (chmod go-w).")
		}
		return nil, FileError("sites file", file, err)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, FileError("sites file", file, err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	switch {
	case !fsutil.Ours(st.Uid):
		return nil, changeableSites(file, fmt.Errorf("it belongs to %s", userName(st.Uid)), "Read it, and make a copy of your own.")
	case fsutil.WritableByOthers(&st):
		return nil, changeableSites(file, fmt.Errorf("others can write to it (mode %#o)", st.Mode&0o7777), "Read it, then take that right from others: chmod go-w "+file+".")
	}
	data, err := readBounded(f)
	if err != nil {
		return nil, FileError("sites file", file, err)
	}
	return data, nil
}

func changeableSites(file string, why error, remedy string) error {
	return &core.Error{Kind: core.Invalid, Op: "read sites file", Object: file, Err: fmt.Errorf("it runs commands as you, and others can change it: %w", why), Remedy: remedy}
}
