package fsutil

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// HostPlace returns the path of a directory of this user on this host, where all processes of the user find it, whatever
// their TMPDIR, and nothing outlives the host. It need not be there. Its name begins with a prefix.
func HostPlace(prefix string) string {
	ids, _ := os.ReadFile("/proc/self/uid_map") // without it, this is no namespace of users
	return ChoosePlace([]string{"/tmp", "/var/tmp", "/dev/shm"}, prefix+strconv.Itoa(OutsideID(os.Geteuid(), string(ids))))
}

// ChoosePlace returns the first place that has a directory of that name of this user, or else the first where one
// can be made: another user may have made something of its name before, in all places even.
func ChoosePlace(places []string, name string) string {
	free := ""
	for _, place := range places {
		dir := filepath.Join(place, name)
		r, err := OpenOwn(dir)
		if err == nil {
			r.Close()
			return dir
		}
		if free == "" && errors.Is(err, os.ErrNotExist) && CheckParents(dir) == nil {
			free = dir
		}
	}
	first := filepath.Join(places[0], name)
	if beside := OwnBeside(first); beside != "" {
		return beside
	}
	if free != "" {
		return free
	}
	if own, err := OwnPlace(first); err == nil {
		return own
	}
	return first // the error of its use says why there is none
}

// OutsideID returns a user's id as it is outside of a namespace with that uid_map
// (user_namespaces(7)): on emulated hosts everybody is root, and would have one directory
// for all.
func OutsideID(id int, uidMap string) int {
	for line := range strings.Lines(uidMap) {
		var first, host, count int
		if n, _ := fmt.Sscan(line, &first, &host, &count); n == 3 && id >= first && id-first < count {
			return host + id - first
		}
	}
	return id
}
