package imagecmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// parseCopies reads flags of the form SOURCE:TARGET.
func parseCopies(flags []string) ([]spec.Copy, error) {
	var copies []spec.Copy
	for _, f := range flags {
		i := strings.LastIndexByte(f, ':')
		if i <= 0 || !filepath.IsAbs(f[i+1:]) {
			return nil, &core.Error{Kind: core.Invalid, Op: "read --copy", Object: f, Err: errors.New("it is not SOURCE:TARGET with an absolute path TARGET"), Remedy: "Write it such as `--copy ./app:/opt/app`."}
		}
		from, err := present("--copy", f[:i])
		if err != nil {
			return nil, err
		}
		copies = append(copies, spec.Copy{From: from, To: f[i+1:]})
	}
	return copies, nil
}

// present gives the absolute path of what a flag names and is there.
func present(flag, path string) (string, error) {
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return "", &core.Error{Kind: core.NotFound, Op: "read " + flag, Object: path, Err: err}
	}
	return path, nil
}
