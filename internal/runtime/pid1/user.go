package pid1

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// credential turns an image's USER into ids. Where the container has but one
// id, every USER is that one: there is no other to be.
func credential(user string) (*syscall.Credential, error) {
	if user == "" || os.Getuid() != 0 || singleID() {
		return nil, nil //nolint:nilnil // no change of ids is what nil means to exec
	}
	name, group, hasGroup := strings.Cut(user, ":")
	uid, gid, err := lookupUser(name)
	if err != nil {
		return nil, err
	}
	if hasGroup {
		if gid, err = lookupGroup(group); err != nil {
			return nil, err
		}
	}
	return &syscall.Credential{Uid: uid, Gid: gid, Groups: groupsOf(name, gid)}, nil
}

// singleID tells whether the user namespace maps one id only.
func singleID() bool {
	raw, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(raw))
	return len(fields) == 3 && fields[2] == "1"
}

func lookupUser(name string) (uid, gid uint32, err error) {
	number, isNumber := strconv.ParseUint(name, 10, 32)
	for _, f := range database("/etc/passwd", 4) {
		if f[0] == name || isNumber == nil && f[2] == name {
			u, err1 := strconv.ParseUint(f[2], 10, 32)
			g, err2 := strconv.ParseUint(f[3], 10, 32)
			if err1 == nil && err2 == nil {
				return uint32(u), uint32(g), nil
			}
		}
	}
	if isNumber == nil {
		return uint32(number), 0, nil
	}
	return 0, 0, fmt.Errorf("user %q is not in the image's /etc/passwd", name)
}

func lookupGroup(name string) (uint32, error) {
	for _, f := range database("/etc/group", 3) {
		if f[0] == name {
			if g, err := strconv.ParseUint(f[2], 10, 32); err == nil {
				return uint32(g), nil
			}
		}
	}
	if g, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(g), nil
	}
	return 0, fmt.Errorf("group %q is not in the image's /etc/group", name)
}

func groupsOf(user string, gid uint32) []uint32 {
	groups := []uint32{gid}
	for _, f := range database("/etc/group", 4) {
		for _, member := range strings.Split(f[3], ",") {
			if g, err := strconv.ParseUint(f[2], 10, 32); err == nil && member == user && uint32(g) != gid {
				groups = append(groups, uint32(g))
			}
		}
	}
	return groups
}

// database reads a file of colon-separated fields.
func database(path string, fields int) [][]string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var rows [][]string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if row := strings.Split(lines.Text(), ":"); len(row) >= fields {
			rows = append(rows, row)
		}
	}
	return rows
}
