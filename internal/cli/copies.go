package cli

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// parseCopies reads flags of the form FROM:TO.
func parseCopies(flags []string) ([]spec.Copy, error) {
	var copies []spec.Copy
	for _, f := range flags {
		i := strings.LastIndexByte(f, ':')
		if i <= 0 || !filepath.IsAbs(f[i+1:]) {
			return nil, &core.Error{Kind: core.Invalid, Op: "read --copy", Object: f, Err: errors.New("it is not FROM:TO with an absolute path TO")}
		}
		from, err := filepath.Abs(f[:i])
		if err != nil {
			return nil, err
		}
		copies = append(copies, spec.Copy{From: from, To: f[i+1:]})
	}
	return copies, nil
}
