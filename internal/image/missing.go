package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	securejoin "github.com/cyphar/filepath-securejoin"
)

// maxDirs bounds the directories that an image can want to have beside its own.
const maxDirs = 100

// Missing returns those of the directories of a container, by absolute paths inside, that
// an image lacks: its WORKDIR and VOLUMEs may be in no layer. What leads nowhere, such as
// links in a circle, is left out.
func (s *Store) Missing(ctx context.Context, i core.Image, dirs []string) ([]string, error) {
	if len(dirs) == 0 {
		return nil, nil
	}
	tree, release, err := s.Tree(ctx, i.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	var missing []string
	for _, dir := range dirs {
		dir = path.Clean("/" + dir)
		real, err := securejoin.SecureJoin(tree, dir)
		if err != nil || strings.ContainsAny(dir, "\x00\n") {
			continue
		}
		if _, err := os.Lstat(real); errors.Is(err, fs.ErrNotExist) && !slices.Contains(missing, dir) && len(missing) < maxDirs {
			missing = append(missing, dir)
		}
	}
	slices.Sort(missing)
	return missing, nil
}
