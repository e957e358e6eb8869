package command

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	securejoin "github.com/cyphar/filepath-securejoin"
)

// Caller is the account that starts containers.
func Caller() core.Account {
	return core.Account{UID: os.Geteuid(), GID: os.Getegid(), Name: cmp.Or(os.Getenv("USER"), "user")}
}

// Account is the account of a container's processes inside.
func Account(s driver.ContainerSpec) core.Account {
	a := Caller()
	a.UID, a.GID = s.IDs(a.UID, a.GID)
	switch {
	case s.Root:
		a.Name = "root"
	case s.User != nil:
		a.Name = cmp.Or(s.User.Name, a.Name)
	}
	return a
}

// mostAccounts bounds each of the databases of an image, in bytes.
const mostAccounts = 16 << 20

// Accounts returns the texts of /etc/passwd and /etc/group of an image. What is there in place
// of a plain file, or is too large for one, counts as empty.
func Accounts(tree string) (passwd, group string, err error) {
	passwd, err = textInside(tree, "/etc/passwd")
	group, gerr := textInside(tree, "/etc/group")
	return passwd, group, errors.Join(err, gerr)
}

func textInside(tree, path string) (string, error) {
	real, err := securejoin.SecureJoin(tree, path)
	if err != nil {
		return "", err
	}
	raw, err := fsutil.ReadFile(filepath.Dir(real), filepath.Base(real), mostAccounts)
	if errors.Is(err, fs.ErrNotExist) || fsutil.Spoiled(err) {
		return "", nil
	}
	return string(raw), err
}

// Databases are the texts of a container's /etc/passwd and /etc/group: those of its image,
// which has lines for an account then.
func Databases(passwd, group string, a core.Account, home string) (newPasswd, newGroup string) {
	uid, gid := strconv.Itoa(a.UID), strconv.Itoa(a.GID)
	passwd = withLine(passwd, uid, strings.Join([]string{a.Name, "x", uid, gid, a.Name, cmp.Or(home, "/"), "/bin/sh"}, ":"))
	return passwd, withLine(group, gid, a.Name+":x:"+gid+":")
}

// withLine is a database with one more line, unless a line has the id.
func withLine(text, id, line string) string {
	for l := range strings.Lines(text) {
		if f := strings.Split(strings.TrimSuffix(l, "\n"), ":"); len(f) > 2 && f[2] == id {
			return text
		}
	}
	if text = strings.TrimRight(text, "\n"); text != "" {
		text += "\n"
	}
	return text + line + "\n"
}
