package node

import (
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/plan"
)

// TestDirectoriesOfAnImage are those that no mount brings.
func TestDirectoriesOfAnImage(t *testing.T) {
	p := &plan.Plan{Image: core.Image{Config: core.ImageConfig{WorkingDir: "app", Volumes: []string{"/data/", "/in/cache", "/work", "/workspace", "/proc/x", "/.bee", "/", "/in"}}}}
	got := ownDirs(p, []driver.Mount{{Target: "/work"}, {Target: "/in/"}})
	if want := []string{"/app", "/data", "/workspace"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTheWorkingDirectory is the volume where neither job nor image name one: what a job
// writes under a relative name is a result.
func TestTheWorkingDirectory(t *testing.T) {
	for _, c := range []struct{ job, image, want string }{
		{"", "", "/work"},
		{"", "/", "/work"},
		{"", "//", "/work"},
		{"", ".", "/work"},
		{"", "app", "/app"},
		{"", "/app", "/app"},
		{"/", "/app", "/"},
		{"/else", "/app", "/else"},
		{"/else", "", "/else"},
	} {
		p := &plan.Plan{Workdir: c.job, Volume: "/work", Image: core.Image{Config: core.ImageConfig{WorkingDir: c.image}}}
		if got := workdirOf(p); got != c.want {
			t.Errorf("job %q, image %q: the working directory is %s, expected %s", c.job, c.image, got, c.want)
		}
	}
}
