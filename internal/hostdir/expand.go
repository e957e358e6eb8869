package hostdir

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/bee-hpc/bee/internal/core"
)

// Expand replaces the variables in a path by those of an account, as lookup finds them;
// $HOME and $USER are known without. Unsupported: one is not set, or no absolute path
// comes of it.
func Expand(path string, lookup func(name string) (value string, set bool)) (string, error) {
	unset := ""
	full := os.Expand(path, func(name string) string {
		value, set := lookup(name)
		if !set {
			value, set = ofAccount(name)
		}
		if !set && unset == "" {
			unset = name
		}
		return value
	})
	switch {
	case unset != "":
		return "", &core.Error{
			Kind: core.Unsupported, Op: "mount", Object: path, Err: fmt.Errorf("the variable %s is not set on the site", unset),
			Remedy: "Set it where every login of the account sees it, or name the directory by `paths:` of the site.",
		}
	case !filepath.IsAbs(full):
		return "", &core.Error{Kind: core.Unsupported, Op: "mount", Object: path, Err: fmt.Errorf("it is %q there, and no absolute path", full), Remedy: "Begin the path with / or with a variable that holds an absolute path."}
	}
	return filepath.Clean(full), nil
}

// ofAccount returns the variables that any login has.
func ofAccount(name string) (string, bool) {
	if name != "HOME" && name != "USER" {
		return "", false
	}
	me, err := user.Current()
	if err != nil {
		return "", false
	}
	if name == "USER" {
		return me.Username, true
	}
	return me.HomeDir, true
}

func itoa(f *os.File) string { return strconv.Itoa(int(f.Fd())) }
