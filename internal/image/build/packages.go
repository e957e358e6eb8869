package build

import (
	"os"
	"path/filepath"
	"strings"
)

// Packages gives the version of each Debian package in a guest image, of which the
// tree is given.
func Packages(tree string) (map[string]string, error) {
	raw, err := os.ReadFile(filepath.Join(tree, "packages"))
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			versions[name] = version
		}
	}
	return versions, nil
}
