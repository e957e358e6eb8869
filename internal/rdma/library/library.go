// Package library has verbs.so, the library in containers that makes BEE's own verbs device,
// as `make build` compiles it from verbs/. It knows nothing of what the library does.
package library

import (
	"errors"
	"io/fs"
	"path"
	"runtime"

	"github.com/bee-hpc/bee/internal/core"
)

// Library is verbs.so for this processor.
type Library struct {
	File []byte
	// Build names the sources, so that library and broker are of one build.
	Build string
}

// Get returns the library. Unsupported: this binary was built without it.
func Get() (Library, error) {
	file, err := built.ReadFile(path.Join(runtime.GOARCH, "verbs.so"))
	if errors.Is(err, fs.ErrNotExist) {
		return Library{}, &core.Error{Kind: core.Unsupported, Op: "find the library for", Object: "bee_0", Err: errors.New("this bee was built without it"), Remedy: "Build bee by `make build`, which compiles it."}
	}
	if err != nil {
		return Library{}, err
	}
	build, err := built.ReadFile(path.Join(runtime.GOARCH, "verbs.id"))
	return Library{file, string(build)}, err
}
