package fsutil

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// settled is how long two processes of one user may take from the choice of a name to the
// directory of that name.
const settled = 20 * time.Millisecond

// OwnPlace returns the path of this user's directory in a place where others may be first,
// such as /tmp: dir itself where it is the user's, or free. Where another user was first,
// one beside it is made, whose name nobody could know: dir, the time, and random letters.
// All processes of the user on this host find the same one, the oldest. The directory at dir
// is not made.
func OwnPlace(dir string) (string, error) {
	r, err := OpenOwn(dir)
	if err == nil {
		return dir, r.Close()
	}
	if perr := CheckParents(filepath.Dir(dir)); perr != nil {
		return "", perr
	}
	if beside := OwnBeside(dir); beside != "" {
		return beside, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return dir, CheckParents(dir)
	}
	made := fmt.Sprintf("%s-%016x-%s", dir, time.Now().UnixNano(), strings.ToLower(rand.Text()))
	if err := os.Mkdir(made, 0o700); err != nil {
		return "", err
	}
	time.Sleep(settled) // one with an earlier name may be on its way
	oldest := OwnBeside(dir)
	if oldest == "" {
		return "", fmt.Errorf("%s is gone that was made just now", made)
	}
	if oldest != made {
		return oldest, os.Remove(made)
	}
	return made, nil
}

// OwnBeside returns the directory that OwnPlace has made beside dir; "": there is none.
func OwnBeside(dir string) string {
	const digits, letters = 16, 26
	entries, _ := os.ReadDir(filepath.Dir(dir)) // sorted
	for _, e := range entries {
		rest, is := strings.CutPrefix(e.Name(), filepath.Base(dir)+"-")
		if !is || len(rest) != digits+1+letters || rest[digits] != '-' || strings.Trim(rest[:digits], "0123456789abcdef") != "" {
			continue
		}
		path := filepath.Join(filepath.Dir(dir), e.Name())
		if r, err := OpenOwn(path); err == nil {
			r.Close()
			return path
		}
	}
	return ""
}
