package spec

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

func TestSitesFilesThatOthersCanChangeAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		file, dir os.FileMode
		owner     int
		remedy    string // "": it is read
	}{
		"its user's own":               {file: 0o600, dir: 0o700},
		"read by all":                  {file: 0o644, dir: 0o755},
		"in a sticky directory":        {file: 0o644, dir: 0o777 | os.ModeSticky},
		"written by all":               {file: 0o646, dir: 0o755, remedy: "chmod go-w"},
		"written by a group":           {file: 0o664, dir: 0o755, owner: 4711, remedy: "chmod go-w"},
		"replaced by all":              {file: 0o600, dir: 0o777, remedy: "~/.config/bee"},
		"replaced by a group":          {file: 0o600, dir: 0o775, owner: 4711, remedy: "~/.config/bee"},
		"of another user, read by all": {file: 0o644, dir: 0o755, owner: 4711, remedy: "copy"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.owner != 0 && os.Geteuid() != 0 {
				return // only root gives files to others
			}
			dir := filepath.Join(t.TempDir(), "config")
			file, link := filepath.Join(dir, "sites.yaml"), filepath.Join(filepath.Dir(dir), "link.yaml")
			err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, []byte("sites: [{name: here, provider: local}]\n"), 0o600), os.Symlink(file, link))
			if strings.Contains(name, "another user") {
				err = errors.Join(err, os.Chown(file, c.owner, c.owner))
			} else if c.owner != 0 {
				err = errors.Join(err, os.Chown(file, -1, c.owner), os.Chown(dir, -1, c.owner))
			}
			if err := errors.Join(err, os.Chmod(file, c.file), os.Chmod(dir, c.dir)); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{file, link} {
				f, err := LoadSites(path)
				if c.remedy == "" {
					if err != nil || len(f.Sites) != 1 {
						t.Errorf("%s: got %+v, %v", path, f, err)
					}
				} else if !core.IsKind(err, core.Invalid) || len(f.Sites) != 0 || !strings.Contains(core.Remedy(err), c.remedy) {
					t.Errorf("%s: got %v and remedy %q, want one with %q", path, err, core.Remedy(err), c.remedy)
				}
			}
		})
	}
}
