package workspace

import "github.com/bee-hpc/bee/internal/image"

// OpenImages opens the image cache.
func (a *Workspace) OpenImages() (*image.Store, error) {
	if err := a.Paths(); err != nil {
		return nil, err
	}
	s, err := image.Open(a.CacheDir, a.Log())
	if err == nil {
		s.BuildInGuest = a.buildInGuest
	}
	return s, err
}
