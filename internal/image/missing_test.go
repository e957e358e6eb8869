package image

import (
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestDirectoriesThatNoLayerHas are known of an image: its VOLUMEs and WORKDIR may be
// among them.
func TestDirectoriesThatNoLayerHas(t *testing.T) {
	s := store(t)
	i, err := s.Pull(t.Context(), "docker-archive:"+testkit.Busybox(t, v1.Config{Volumes: map[string]struct{}{"/data": {}, "/tmp": {}}, StopSignal: "SIGQUIT"}), PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(i.Config.Volumes, []string{"/data", "/tmp"}) || i.Config.StopSignal != "SIGQUIT" {
		t.Errorf("got %+v", i.Config)
	}
	got, err := s.Missing(t.Context(), i, []string{"/data", "/tmp", "/data", "relative", "/bin/sh", "/a/../b/c", "/../../x", "/home/app"})
	if want := []string{"/b/c", "/data", "/relative", "/x"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}
