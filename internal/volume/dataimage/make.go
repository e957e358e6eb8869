package dataimage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// LeastSize is the smallest image, in bytes: the file system's own needs, and a
// little.
const LeastSize = 64 << 20

// journalSize, in bytes, is what an image needs for its journal at most.
const journalSize = 64 << 20

// Make makes an image of a size in bytes (0: what the directory needs) that
// holds what a directory does. The file appears when it is whole and on the
// disk; it takes only the space of what is in it.
func (t Tools) Make(ctx context.Context, file, dir string, size int64) error {
	root, err := fsutil.OpenRoot(dir)
	if err != nil {
		return fileError("read directory", dir, err)
	}
	defer root.Close()
	size, misfit, err := fit(file, root, size)
	if err != nil {
		return err
	}
	f, err := unfinished(filepath.Dir(file))
	if err != nil {
		return fileError("make data image", file, err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := f.Truncate(size &^ (blockSize - 1)); errors.Is(err, unix.EFBIG) {
		return &core.Error{
			Kind: core.Invalid, Op: "make data image", Object: file, Err: fmt.Errorf("%s too much for a file of the file system that it lies in", plainly(size)),
			Remedy: "Give it a smaller size, or lay it into another directory.",
		}
	} else if err != nil {
		return fileError("make data image", file, err)
	}
	into, err := filepath.Abs(f.Name())
	if err != nil {
		return err
	}
	code, printed, err := t.runIn(ctx, root.Pinned(), "mke2fs", arguments(into, ".", size, ",assume_storage_prezeroed=1")...)
	if code != 0 && strings.Contains(printed, "Bad option") { // before 1.47: it takes space for zeros
		code, printed, err = t.runIn(ctx, root.Pinned(), "mke2fs", arguments(into, ".", size, "")...)
	}
	switch {
	case err != nil:
		return err
	case code != 0 && full(printed) && spaceLeft(file) < blockSize:
		return &core.Error{Kind: core.Transient, Op: "make data image", Object: file, Err: unix.ENOSPC, Remedy: "Free space there."}
	case code != 0 && full(printed):
		return misfit
	case code != 0:
		return &core.Error{Kind: core.Permanent, Op: "make data image", Object: file, Err: errors.New(printed), Remedy: "Check the size, and the free space of the directory."}
	}
	if err := f.Sync(); err != nil {
		return fileError("make data image", file, err)
	}
	if err := fsutil.Rename(f.Name(), file); err != nil {
		return fileError("make data image", file, err)
	}
	return nil
}

// unfinishedPrefix begins the names of images that are being made.
const unfinishedPrefix = ".bee-image-"

// unfinished makes a file for an image, which is locked until it is closed, and removes
// those of makers that were killed.
func unfinished(dir string) (*os.File, error) {
	old, _ := filepath.Glob(filepath.Join(fsutil.QuoteGlob(dir), unfinishedPrefix+"*"))
	for _, name := range old {
		if f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0); err == nil {
			if fsutil.TryFlock(int(f.Fd()), unix.LOCK_EX) == nil {
				fsutil.TryRemove(name) // tried again by the next one
			}
			f.Close()
		}
	}
	f, err := os.CreateTemp(dir, unfinishedPrefix)
	if err == nil {
		core.BestEffort(fsutil.TryFlock(int(f.Fd()), unix.LOCK_EX)) // where locks are unknown, nobody finds it free
	}
	return f, err
}

// Fits refuses what Make would, for want of size, after it has read the directory.
func Fits(file, dir string, size int64) error {
	root, err := fsutil.OpenRoot(dir)
	if err != nil {
		return fileError("read directory", dir, err)
	}
	defer root.Close()
	_, _, err = fit(file, root, size)
	return err
}

// fit gives the size of an image, and what to say where that turns out to be too little.
func fit(file string, root *fsutil.Root, size int64) (_ int64, misfit, err error) {
	refuse := func(remedy, why string, args ...any) error {
		return &core.Error{Kind: core.Invalid, Op: "make data image", Object: file, Err: fmt.Errorf(why, args...), Remedy: remedy}
	}
	bytes, files, err := measure(root)
	if _, reported := errors.AsType[*core.Error](err); err != nil && !reported {
		err = fileError("read directory", root.Path("."), err)
	}
	if err != nil {
		return 0, nil, err
	}
	needs := need(bytes, files)
	if size == 0 {
		size = needs
	}
	if size < LeastSize {
		return 0, nil, refuse("Give it a size of at least 64M.", "%s too little for a file system", plainly(size))
	}
	misfit = refuse(fmt.Sprintf("Give it more: at least %d MiB.", needs>>20),
		"what is to go into it has %d MiB in %d files, and does not fit into %d MiB", bytes>>20, files, size>>20)
	if bytes > size {
		return 0, nil, misfit
	}
	return size, misfit, nil
}

// plainly reports a size that is wrong, with its verb.
func plainly(size int64) string {
	if size < 1<<20 {
		return fmt.Sprintf("%d bytes are", size)
	}
	return fmt.Sprintf("%d MiB are", size>>20)
}

const (
	blockSize = 4096
	inodeSize = 256
	// ratio is how many bytes of an image there are to one file: mke2fs' own,
	// so that a disk's worth of small files fits.
	ratio = 16384
	// largest is the size of a file that has all the blocks that ext4 can number.
	largest = (1<<32 - 1) * blockSize
)

// arguments of mke2fs. All that its configuration could say is reported here, so
// that images are the same wherever they are made. more are further extended
// options.
func arguments(file, dir string, size int64, more string) []string {
	journal := min(journalSize, max(size/16, 4<<20))
	return []string{
		"-q", "-F", "-t", "ext4", "-b", strconv.Itoa(blockSize), "-I", strconv.Itoa(inodeSize), "-i", strconv.Itoa(ratio), "-m", "0",
		"-O", "none,has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,metadata_csum",
		"-J", "size=" + strconv.FormatInt(journal>>20, 10), "-L", "bee-data",
		"-E", fmt.Sprintf("root_owner=%d:%d,lazy_itable_init=0,lazy_journal_init=0,nodiscard%s", os.Geteuid(), os.Getegid(), more), "-d", dir, file,
	}
}

// need is a size that holds so much for sure: whole blocks, inodes, extents,
// directories and the journal.
func need(bytes, files int64) int64 {
	data := bytes + files*(blockSize+inodeSize)
	data = max(data, files*ratio) // an inode for each
	return (LeastSize + journalSize + data + data/16) &^ (1<<20 - 1)
}

// measure sums up a directory, without the holes of its files.
func measure(root *fsutil.Root) (bytes, files int64, err error) {
	type inode struct{ device, number uint64 }
	seen := map[inode]bool{} // of files with several names
	err = root.Walk(".", func(name string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		st, is := info.Sys().(*syscall.Stat_t)
		if !is {
			return fmt.Errorf("%q has no inode", name)
		}
		files++
		if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink > 1 {
			id := inode{uint64(st.Dev), st.Ino}
			if seen[id] {
				return nil
			}
			seen[id] = true
		}
		if st.Size > largest {
			return &core.Error{
				Kind: core.Invalid, Op: "make data image of", Object: root.Path(name), Err: errors.New("it has 16 TiB or more, which no file of such an image may have"),
				Remedy: "Split it, or move it out of the directory.",
			}
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Blocks*512 >= st.Size {
			bytes += st.Size
			return nil
		}
		return withContent(root, name, func(c *content) error { // it has holes, or its file system compresses
			for _, x := range c.extents {
				bytes += x.length
			}
			return nil
		})
	})
	return bytes, files, err
}

func spaceLeft(file string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(filepath.Dir(file), &st) != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}
