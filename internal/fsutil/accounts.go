package fsutil

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Ours reports whether an owner is this user or root, as far as the user namespace shows.
func Ours(uid uint32) bool { return new(accounts).ours(uid) }

// WritableByOthers reports whether others than the owner can write to a file or directory,
// by the rules of CheckParents.
func WritableByOthers(st *unix.Stat_t) bool { return new(accounts).writable(st) }

// accounts answers who may write to directories.
type accounts struct {
	read          bool
	users, groups [][]string // of /etc/passwd and /etc/group
	unmapped      bool       // the root directory belongs to overflowID
}

// shared reports why others can replace what is at next, an entry of a directory, or nil.
// next is nil where there is nothing yet.
func (a *accounts) shared(dir, next *unix.Stat_t) error {
	switch {
	case !a.ours(dir.Uid):
		return fmt.Errorf("it belongs to user %d, who can replace what is in it", dir.Uid)
	case !a.writable(dir):
		return nil
	case dir.Mode&unix.S_ISVTX == 0:
		return fmt.Errorf("others can replace what is in it (mode %#o)", dir.Mode&0o7777)
	case next != nil && !a.ours(next.Uid):
		return fmt.Errorf("in it belongs to user %d what follows", next.Uid)
	}
	return nil
}

// ours reports whether an owner is this user or root.
func (a *accounts) ours(uid uint32) bool {
	if uid == 0 || int(uid) == os.Geteuid() {
		return true
	}
	a.load()
	return a.unmapped && int(uid) == overflowID
}

// overflowID is the number that the kernel shows for users who have none in a user
// namespace. Where the root directory is theirs, as on emulated hosts, it is root's.
const overflowID = 65534

// writable reports whether others than the owner can write to a directory.
func (a *accounts) writable(dir *unix.Stat_t) bool {
	if dir.Mode&0o002 != 0 {
		return true
	}
	return dir.Mode&0o020 != 0 && !a.private(int(dir.Uid), int(dir.Gid))
}

// private reports whether a group is that of a user alone, as many distributions make one
// for each user: it has the user's name, and nobody else is in it. Accounts that only a
// directory service knows do not count.
func (a *accounts) private(uid, gid int) bool {
	a.load()
	name := ""
	for _, u := range a.users { // name:password:uid:gid:…
		if len(u) < 4 || u[3] != strconv.Itoa(gid) {
			continue
		}
		if name != "" || u[2] != strconv.Itoa(uid) {
			return false
		}
		name = u[0]
	}
	return name != "" && slices.ContainsFunc(a.groups, func(g []string) bool { // name:password:gid:members
		return len(g) == 4 && g[0] == name && g[2] == strconv.Itoa(gid) && (g[3] == "" || g[3] == name)
	})
}

func (a *accounts) load() {
	if a.read {
		return
	}
	a.read = true
	a.users = table("/etc/passwd") // then nobody has a group alone
	a.groups = table("/etc/group")
	top, err := lstat("/")
	a.unmapped = err == nil && top.Uid == overflowID
}

// table reads the lines of a file as fields between colons; none where it cannot be read.
func table(path string) (lines [][]string) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, strings.Split(s.Text(), ":"))
	}
	return lines
}
